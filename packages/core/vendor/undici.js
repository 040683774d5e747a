// What core uses of undici, as one file that bundlers can read: undici's own files are CommonJS, and what a bundler
// makes of their `require('node:…')` throws in an ES module. Chosen by the condition `module`, which node does not have.
import request from 'undici/lib/api/api-request.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'
import Pool from 'undici/lib/dispatcher/pool.js'

Dispatcher.prototype.request = request

export { Pool }
