export * from '../dist/node.js'
