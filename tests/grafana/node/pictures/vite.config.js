// Built in a copy of the sources that has the packages beside it: see tests/grafana/pictures.py.
export default {
  base: './',
  define: { 'process.env': {}, global: 'globalThis' },
  resolve: { preserveSymlinks: true },
  esbuild: { jsx: 'automatic' },
  build: { chunkSizeWarningLimit: 99999, minify: false, emptyOutDir: true },
};
