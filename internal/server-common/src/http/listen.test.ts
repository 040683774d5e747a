import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { getLocalUrl, listen } from './listen.ts'

test('idle connections stay open longer than those of proxies', async () => {
  const http = createServer((_, response) => response.end())
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  await listen(http, 0, '127.0.0.1')
  const response = await fetch(getLocalUrl('127.0.0.1', (http.address() as AddressInfo).port))
  expect(response.headers.get('keep-alive')).toBe('timeout=300')
})

test('connections that cannot be accepted do not end the process, and are reported once', async () => {
  const http = createServer()
  onTestFinished(() => void http.close())
  await listen(http, 0, '127.0.0.1')
  const warning = vi.spyOn(process, 'emitWarning').mockReturnValue()
  for (let count = 0; count < 3; count += 1) http.emit('error', new Error('accept EMFILE'))
  expect(warning.mock.calls).toEqual([['connections are not accepted: accept EMFILE']])
  await expect(listen(createServer(), (http.address() as AddressInfo).port, '127.0.0.1')).rejects.toThrow(
    /is in use by another program/,
  )
})

test.each([
  ['127.0.0.1', 'http://127.0.0.1:8080'],
  ['localhost', 'http://localhost:8080'],
  ['::1', 'http://[::1]:8080'],
  // clients cannot connect to these addresses on every system
  ['0.0.0.0', 'http://127.0.0.1:8080'],
  ['::', 'http://127.0.0.1:8080'],
])('returns the URL of a server that listens on %s', (host, url) => {
  expect(getLocalUrl(host, 8080)).toBe(url)
})
