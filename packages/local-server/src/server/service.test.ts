import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Registry } from '@batonsql/control-plane'
import { expect, onTestFinished, test, vi } from 'vitest'
import { serviceRequest } from '../../../../test/server/service-request.ts'
import { execute } from '../../../../test/server/wire.ts'
import { createTemporaryDirectory } from '../../../../test/support/temporary-directory.ts'
import { EmbeddedBackend } from '../embedded/backend.ts'
import { type LocalServer, startLocalServer } from './server.ts'
import { ServerLog } from './server-log.ts'
import { Service, type ServiceOptions } from './service.ts'

const optionsFor = (dataDirectory: string): ServiceOptions => ({
  dataDirectory,
  listenHost: '127.0.0.1',
  log: new ServerLog('none'),
})

const createTable = (service: Service) =>
  service.handle(
    serviceRequest({ requests: [execute('CREATE TABLE t (x)')] }, { headers: { host: '127.0.0.1' } }),
  )

test('closing reports data that could not be written, and still releases the directory', async () => {
  const directory = createTemporaryDirectory()
  const service = await Service.start(optionsFor(directory))
  expect((await createTable(service)).status).toBe(200)
  // as on a full disk: the usage of the database cannot be recorded
  service.controlPlane.registry.close()
  await expect(service.close()).rejects.toThrow(
    `the server was stopped, but could not write everything to ${directory}: the registry is closed`,
  )
  expect(existsSync(join(directory, 'baton.lock'))).toBe(false)
  const next = await Service.start(optionsFor(directory))
  await next.close()
})

test('closing reports nothing if everything was written', async () => {
  const directory = createTemporaryDirectory()
  const service = await Service.start(optionsFor(directory))
  await createTable(service)
  await expect(service.close()).resolves.toBeUndefined()
})

test('reports a full disk once per database, but not a value with that text or a configured size limit', async () => {
  const directory = createTemporaryDirectory()
  const service = await Service.start(optionsFor(directory))
  onTestFinished(() => service.close())
  const consoleError = vi.spyOn(console, 'error').mockReturnValue()
  const handle = vi.spyOn(service.controlPlane.backend, 'handle')
  const linesAfter = async (body: string): Promise<unknown> => {
    handle.mockResolvedValue({ status: 200, headers: {}, body })
    await createTable(service)
    return consoleError.mock.calls.map(([line]) => line as unknown)
  }
  const full = '{"error":{"message":"database or disk is full","code":"SQLITE_FULL"}}'
  const line =
    'default: a statement failed because the disk is full, or a table has no rowid left (SQLITE_FULL)'
  expect(await linesAfter(JSON.stringify({ value: full }))).toEqual([])
  await service.updateDatabase('default', { sizeLimit: '4000kb' })
  expect(await linesAfter(full)).toEqual([])
  await service.updateDatabase('default', { sizeLimit: null })
  expect(await linesAfter(full)).toEqual([line])
  expect(await linesAfter(full)).toEqual([line])
  const both = `[${full},${full.replace('FULL', 'IOERR_WRITE')}]`
  const failing = 'default: a statement failed because the disk could not be read or written (SQLITE_IOERR)'
  expect(await linesAfter(both)).toEqual([line, failing])
  expect(await linesAfter(both)).toEqual([line, failing])
})

test('a server whose only database was lost gets no empty one in its place', async () => {
  const directory = createTemporaryDirectory()
  const service = await Service.start(optionsFor(directory))
  await service.createDatabase('app')
  await service.deleteDatabase('default')
  const { id: lostId } = service.getDatabase('app')
  await service.close()
  rmSync(join(directory, 'databases', lostId), { recursive: true })
  vi.spyOn(console, 'error').mockReturnValue()
  const next = await Service.start(optionsFor(directory))
  onTestFinished(() => next.close())
  expect([next.databaseNames, next.findDatabase('app')?.state]).toEqual([[], 'lost'])
  expect(() => next.getDatabase('app')).toThrow('the file of database "app" is missing or empty')
  await next.deleteDatabase('app')
  await next.createDatabase('app')
  expect(next.databaseNames).toEqual(['app'])
})

test('a database keeps its counters and requested failures until it has been removed, by any caller', async () => {
  const service = await Service.start(optionsFor(createTemporaryDirectory()))
  onTestFinished(() => service.close())
  const { router, controlPlane } = service.parts
  const row = service.getDatabase('default')
  router.failures.add(row.id, 503, { always: true })
  await createTable(service)
  await controlPlane.databases.change({
    ...row,
    configuration: { ...row.configuration, deleteProtection: true },
  })
  await expect(service.deleteDatabase('default')).rejects.toThrow('protected from deletion')
  expect([router.requestCount('default'), (await createTable(service)).status]).toEqual([1, 503])
  const forget = vi.spyOn(router, 'forget')
  await controlPlane.databases.change(row)
  await controlPlane.databases.remove(row)
  await service.createDatabase('default')
  await service.deleteDatabase('default')
  expect(forget.mock.calls).toEqual([[row.id], [expect.any(String)]])
})

test('a closed server changes no database, and its directory stays as it is', async () => {
  const directory = createTemporaryDirectory()
  const server = await startLocalServer({ dataDirectory: directory })
  await server.createSnapshot('default', 'kept')
  await server.close()
  const listFiles = () => readdirSync(directory, { recursive: true }).sort()
  const files = listFiles()
  const calls = [
    () => server.createDatabase('new'),
    () => server.updateDatabase('default', { blockReads: true }),
    () => server.createSnapshot('default'),
    () => server.restoreSnapshot('default', 'kept'),
    () => server.deleteSnapshot('default', 'kept'),
    () => server.deleteDatabase('default'),
    () => server.openDatabase('default'),
    () => server.createToken('default'),
    () => server.exportDatabase('default', join(directory, 'export.db')),
    () => server.setReplica('fra', { isDown: true }),
  ]
  for (const call of calls) await expect(call(), String(call)).rejects.toThrow('the server is closed')
  expect(listFiles()).toEqual(files)
})

test.for<[string, (server: LocalServer) => Promise<unknown>]>([
  ['createDatabase', (server) => server.createDatabase('new')],
  ['updateDatabase', (server) => server.updateDatabase('default', { blockReads: true })],
  ['deleteDatabase', (server) => server.deleteDatabase('default')],
  ['exportDatabase', (server) => server.exportDatabase('default', join(server.dataDirectory, 'export.db'))],
  ['createSnapshot', (server) => server.createSnapshot('default')],
  ['restoreSnapshot', (server) => server.restoreSnapshot('default', 'kept')],
])('closing waits for %s', async ([, call]) => {
  const server = await startLocalServer()
  await server.createSnapshot('default', 'kept')
  const ended = Promise.withResolvers<never>()
  const backend = EmbeddedBackend.prototype
  const dispose = backend[Symbol.asyncDispose]
  for (const method of ['create', 'applySettings', 'remove', 'exportTo'] as const)
    vi.spyOn(backend, method).mockImplementation(() => ended.promise)
  const order: string[] = []
  vi.spyOn(backend, Symbol.asyncDispose).mockImplementation(async function (this: EmbeddedBackend) {
    await dispose.call(this)
    // without the wait, the registry would be closed before the next turn of the event loop
    setImmediate(() => {
      order.push('call')
      ended.reject(new Error('closed'))
    })
  })
  const closeRegistry = vi.spyOn(Registry.prototype, 'close').mockImplementation(function (this: Registry) {
    order.push('registry')
    closeRegistry.mockRestore()
    this.close()
  })
  await Promise.all([expect(call(server)).rejects.toThrow(), server.close()])
  expect(order).toEqual(['call', 'registry'])
})
