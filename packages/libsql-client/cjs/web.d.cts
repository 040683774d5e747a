export * from '../dist/web.js'
