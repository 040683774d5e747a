import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { expect, onTestFinished, test, vi } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import type { DatabaseId } from '../backend/backend.ts'
import { PipelineFailure } from '../hrana/pipeline-failure.ts'
import type { Permissions } from '../hrana/pipeline-types.ts'
import { newKeyPair, signToken } from './jwt.ts'
import { TokenCheck } from './token-check.ts'

const ID = 'app' as DatabaseId

const requestWith = (token: string) => serviceRequest('', { headers: { authorization: `Bearer ${token}` } })

/** Returns the permissions of a token with the given claims, or the status and body of the rejection. */
function check(claims: Readonly<Record<string, unknown>>): Permissions | string {
  const key = newKeyPair()
  const tokens = new TokenCheck(false)
  tokens.configure(ID, [key.publicPem])
  try {
    return tokens.getPermissions(requestWith(signToken(key, claims)), ID)
  } catch (error) {
    if (error instanceof PipelineFailure) return `${error.status} ${error.body}`
    throw error
  }
}

test.each([
  [[{ t: ['orders'], a: ['data_read'] }], [{ tables: ['orders'], actions: ['data_read'] }]],
  [[{ t: null, a: ['data_read', 'data_add'] }], [{ tables: null, actions: ['data_read', 'data_add'] }]],
  [[], null],
  [null, null],
])('reads the tables of a token from the claim %j', (perm, tables) => {
  expect(check({ id: ID, perm })).toMatchObject({ tables })
})

test.each([
  'all',
  5,
  {},
  [null],
  [{ t: 'orders', a: ['data_read'] }],
  [{ t: ['orders'] }],
  [{ t: ['orders'], a: ['everything'] }],
  [{ a: ['data_read'] }, { a: 'data_read' }],
])('a token with the malformed claim %j is rejected', (perm) => {
  expect(check({ id: ID, perm })).toBe('401 {"error":"Unauthorized: `The JWT is invalid`"}')
})

test.each([
  [{ id: ID, a: 'roa' }, false, [ID]],
  [{ a: 'roa' }, false, 'all'],
  [{ a: 'roa', perm: [{ a: ['data_read'] }] }, false, []],
  [{ id: ID }, true, []],
  [{}, true, []],
  [{ p: { rw: { ns: [ID] }, roa: { ns: ['other'] } } }, true, ['other']],
])('a token with the claims %j: write %s, attach %j', (claims, write, attach) => {
  expect(check(claims)).toMatchObject({ write, attach })
})

test('a thousand tokens are verified once each, whatever the order of their requests', () => {
  const key = newKeyPair()
  const tokens = new TokenCheck(false)
  tokens.configure(ID, [key.publicPem])
  const requests = Array.from({ length: 1_000 }, (_, number) => requestWith(signToken(key, { number })))
  const verify = vi.spyOn(crypto, 'verify')
  syncBuiltinESMExports()
  onTestFinished(() => {
    verify.mockRestore()
    syncBuiltinESMExports()
  })
  for (let round = 0; round < 2; round++) for (const request of requests) tokens.getPermissions(request, ID)
  expect(verify).toHaveBeenCalledTimes(1_000)
})
