// Makes every HTTP server of a node process wait for a random time of up to TEST_REQUEST_DELAY_MS before it handles a request.
// Loaded with --import into all processes of a test run, because results must not depend on the duration of requests.
import http from 'node:http'

const maxMs = Number(process.env.TEST_REQUEST_DELAY_MS)
const { emit } = http.Server.prototype
// tests may replace the global one with a fake
const { setTimeout } = globalThis

http.Server.prototype.emit = function (event, ...details) {
  if (event !== 'request') return emit.call(this, event, ...details)
  setTimeout(() => emit.call(this, event, ...details), Math.random() * maxMs)
  return true
}
