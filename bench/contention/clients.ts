import http from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { createClient } from '@batonsql/core'
import { createClient as createLibsqlClient } from '@libsql/client/http'

/** A write transaction of the load. */
export interface Work {
  readonly statements: readonly string[]
  /** Pause between two statements. */
  readonly thinkMs: number
  /** Time after which the program aborts it; null if it never does. */
  readonly abortAfterMs: number | null
}

/** A program that uses a database through one client. */
export interface Program {
  /** Runs a write transaction. Rejects if it failed or was aborted. */
  write(work: Work): Promise<void>
  /** Runs a read transaction and keeps it open for `openMs`. */
  report(sql: string, openMs: number): Promise<void>
  /** Closes the client. */
  close(): Promise<void>
}

/** The clients that are compared. Each takes the URL of a database. */
export const CLIENTS: Readonly<Record<string, (url: string) => Program>> = {
  '@batonsql/core': openBaton,
  '@libsql/client': openLibsql,
  'plain HTTP': openPlainHttp,
}

class AbortedError extends Error {
  override readonly name = 'AbortedError'
}

function openBaton(url: string): Program {
  const db = createClient({ url })
  return {
    async write({ statements, thinkMs, abortAfterMs }) {
      const signal = abortAfterMs === null ? undefined : AbortSignal.timeout(abortAfterMs)
      await db.transaction(async (tx) => {
        for (const sql of statements) {
          await tx.execute(sql, [], { signal })
          if (thinkMs > 0) await pause(thinkMs)
        }
      })
    },
    async report(sql, openMs) {
      await db.transaction(
        async (tx) => {
          await tx.execute(sql)
          await pause(openMs)
        },
        { mode: 'deferred' },
      )
    },
    close: () => db.close(),
  }
}

/** This client does not support signals: a transaction is aborted by closing it while its statement is running. */
function openLibsql(url: string): Program {
  const db = createLibsqlClient({ url })
  return {
    async write({ statements, thinkMs, abortAfterMs }) {
      const transaction = await db.transaction('write')
      const timer = abortAfterMs === null ? undefined : setTimeout(() => transaction.close(), abortAfterMs)
      try {
        for (const sql of statements) {
          await transaction.execute(sql)
          if (thinkMs > 0) await pause(thinkMs)
        }
        await transaction.commit()
      } finally {
        clearTimeout(timer)
        transaction.close()
      }
    },
    async report(sql, openMs) {
      const transaction = await db.transaction('deferred')
      try {
        await transaction.execute(sql)
        await pause(openMs)
      } finally {
        transaction.close()
      }
    },
    close: async () => db.close(),
  }
}

interface PipelineResponse {
  readonly baton: string | null
  readonly results: readonly { readonly type: string; readonly error?: { readonly message: string } }[]
}

/** Sends BEGIN with the first statement. An aborted transaction is left open, like that of a killed program. */
function openPlainHttp(url: string): Program {
  const agent = new http.Agent({ keepAlive: true })
  const send = async (
    baton: string | null,
    texts: readonly string[],
    isLast: boolean,
  ): Promise<PipelineResponse> => {
    const requests: object[] = texts.map((sql) => ({ type: 'execute', stmt: { sql } }))
    if (isLast) requests.push({ type: 'close' })
    const reply = await post(agent, new URL('v3/pipeline', `${url.replace(/\/$/, '')}/`), {
      baton,
      requests,
    })
    const failedResult = reply.results.find(({ type }) => type === 'error')
    if (failedResult === undefined) return reply
    if (reply.baton !== null) await send(reply.baton, [], true)
    throw new Error(failedResult.error?.message)
  }
  return {
    async write({ statements, thinkMs, abortAfterMs }) {
      const abortAt = abortAfterMs === null ? Number.POSITIVE_INFINITY : performance.now() + abortAfterMs
      let baton: string | null = null
      for (const [index, sql] of statements.entries()) {
        if (performance.now() > abortAt) throw new AbortedError('aborted')
        baton = (await send(baton, index === 0 ? ['BEGIN IMMEDIATE', sql] : [sql], false)).baton
        if (thinkMs > 0) await pause(thinkMs)
      }
      await send(baton, ['COMMIT'], true)
    },
    async report(sql, openMs) {
      const { baton } = await send(null, ['BEGIN', sql], false)
      await pause(openMs)
      await send(baton, [], true)
    },
    close: async () => agent.destroy(),
  }
}

async function post(agent: http.Agent, url: URL, body: object): Promise<PipelineResponse> {
  const text = JSON.stringify(body)
  return await new Promise((resolve, reject) => {
    const headers = { 'content-length': Buffer.byteLength(text) }
    const request = http.request(url, { agent, method: 'POST', headers }, (response) => {
      let responseText = ''
      response.setEncoding('utf8')
      response.on('error', reject)
      response.on('data', (part: string) => {
        responseText += part
      })
      response.on('end', () => {
        if (response.statusCode === 200) resolve(JSON.parse(responseText) as PipelineResponse)
        else reject(new Error(`${response.statusCode}: ${responseText.slice(0, 100)}`))
      })
    })
    request.on('error', reject)
    request.end(text)
  })
}
