import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { beforeEach, expect, test, vi } from 'vitest'
import type { DatabaseId } from './backend.ts'
import { type RunningRequest, RunningRequests } from './running-requests.ts'

const ID = 'one' as DatabaseId

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))

function beginRead(running: RunningRequests): RunningRequest {
  return running.begin(ID, new AbortController())
}

function beginWrite(running: RunningRequests): RunningRequest {
  const request = running.begin(ID, new AbortController())
  request.mayWrite = () => true
  return request
}

/** Returns whether a promise has been fulfilled. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false
  void promise.then(() => {
    done = true
  })
  await vi.advanceTimersByTimeAsync(0)
  return done
}

test('aborts a read-only request at once, and gives one that may write time to finish', async () => {
  const running = new RunningRequests()
  const [read, write] = [beginRead(running), beginWrite(running)]
  const revocation = running.revoke(ID, 'all')
  expect([read.isAborted, read.signal.aborted, write.isAborted, write.isRevoked]).toEqual([
    true,
    true,
    false,
    true,
  ])
  read.release()
  await vi.advanceTimersByTimeAsync(1_999)
  expect(await isDone(revocation)).toBe(false)
  write.release()
  expect(await revocation).toEqual([])
  expect([write.isAborted, vi.getTimerCount()]).toEqual([false, 0])
})

test('aborts a request that does not finish in time, and returns it if it continues', async () => {
  const running = new RunningRequests()
  const write = beginWrite(running)
  const revocation = running.revoke(ID, 'writes')
  await vi.advanceTimersByTimeAsync(2_000)
  expect([write.isAborted, await isDone(revocation)]).toEqual([true, false])
  await vi.advanceTimersByTimeAsync(1_000)
  expect(await revocation).toEqual([write])
})

test('revoking write access does not affect readers, later requests or other databases', async () => {
  const running = new RunningRequests()
  const read = beginRead(running)
  const otherRequest = running.begin('two' as DatabaseId, new AbortController())
  otherRequest.mayWrite = () => true
  const write = beginWrite(running)
  const revocation = running.revoke(ID, 'writes')
  const laterWrite = beginWrite(running)
  write.release()
  expect(await revocation).toEqual([])
  expect([read, otherRequest, laterWrite].map(({ isRevoked }) => isRevoked)).toEqual([false, false, false])
})

test('once write access is revoked, a stream that may have written is not continued, even if its request is read-only', async () => {
  const running = new RunningRequests()
  const read = beginRead(running)
  read.hasWriteAccess = true
  expect(await running.revoke(ID, 'writes')).toEqual([])
  expect([read.isRevoked, read.isAborted]).toEqual([true, false])
})

test('two concurrent revocations wait for the same request', async () => {
  const running = new RunningRequests()
  const write = beginWrite(running)
  const revocations = Promise.all([running.revoke(ID, 'writes'), running.revoke(ID, 'all')])
  expect(await isDone(revocations)).toBe(false)
  write.release()
  expect(await revocations).toEqual([[], []])
})

test('marks a request whose body is being received as revoked, without waiting for it', async () => {
  const running = new RunningRequests()
  const request = beginRead(running)
  request.isReceiving = true
  expect(await running.revoke(ID, 'all')).toEqual([])
  expect([request.isAborted, request.isRevoked]).toEqual([false, true])
})

test('a body keeps its request running, and is destroyed if the request is aborted', async () => {
  const running = new RunningRequests()
  const request = beginRead(running)
  const body = new PassThrough()
  expect(request.respond({ status: 200, headers: {}, body }).body).toBe(body)
  request.release()
  expect(await isDone(request.waitForEnd())).toBe(false)
  const read = pipeline(body, new PassThrough()).then(String, String)
  // everything has been read, but the reader has not received the end yet
  body.end()
  expect(await running.revoke(ID, 'all')).toEqual([])
  expect(await read).toContain('was revoked')
  expect([body.destroyed, await running.revoke(ID, 'all')]).toEqual([true, []])
})

test('a response that arrives after the abort is not sent', async () => {
  const running = new RunningRequests()
  const request = beginRead(running)
  running.abort(ID)
  const body = new PassThrough()
  expect(request.respond({ status: 200, headers: {}, body })).toMatchObject({ status: 502 })
  expect(body.destroyed).toBe(true)
  const secondRequest = beginRead(running)
  const aborted = running.abortAll()
  expect(secondRequest.respond({ status: 200, headers: {}, body: 'rows' }).body).not.toBe('rows')
  request.release()
  secondRequest.release()
  await aborted
})

test('a request from a client that has disconnected is aborted, but its access is not revoked', () => {
  const controller = new AbortController()
  const request = new RunningRequests().begin(ID, controller)
  controller.abort(new Error('disconnected'))
  expect([request.signal.aborted, request.isAborted, request.isRevoked]).toEqual([true, false, false])
})
