// @grafana/data looks for these when it is loaded, so this module is the first import of the program. The language is
// the same on every machine, for numbers are written by it.
globalThis.window ??= {};
Object.defineProperty(globalThis, 'navigator', { value: { language: 'en-US', languages: ['en-US'] }, configurable: true });
