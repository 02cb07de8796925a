// Built in a copy of the sources that has the packages beside it: see tests/grafana/pictures.py.
export default {
  base: './',
  publicDir: '../node_modules/@grafana/ui/dist/public', // the icons of the tables' headers
  define: { 'process.env': {}, global: 'globalThis', 'window.__grafana_public_path__': '"./"' },
  resolve: { preserveSymlinks: true },
  esbuild: { jsx: 'automatic' },
  build: { chunkSizeWarningLimit: 99999, minify: false, emptyOutDir: true },
};
