export * from '../dist/ws.js'
