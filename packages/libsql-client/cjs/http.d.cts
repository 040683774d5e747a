export * from '../dist/http.js'
