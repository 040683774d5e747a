import { expect, test } from 'vitest'
import { loadServer } from './load-server.ts'

const rejectAsMissing = (name: string): Promise<never> =>
  Promise.reject(
    Object.assign(new Error(`Cannot find package '${name}' imported from /app/@batonsql/cli/dist/dev.js`), {
      code: 'ERR_MODULE_NOT_FOUND',
    }),
  )

test('throws a one-line error that explains how to install the local server', async () => {
  await expect(loadServer(() => rejectAsMissing('@batonsql/local-server'))).rejects.toThrow(
    /^the local server is not installed: add it with `npm install .+`$/,
  )
})

test('rethrows other errors unchanged, and returns an installed server', async () => {
  await expect(loadServer(() => rejectAsMissing('hono'))).rejects.toThrow(/^Cannot find package 'hono'/)
  expect(await loadServer(() => import('@batonsql/local-server/sqld'))).toHaveProperty('startSqld')
})
