import { writeFile } from 'node:fs/promises'
import http from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ClientEvent, createClient } from '@batonsql/core'
import { createHandler, type LocalServer, startLocalServer } from '@batonsql/local-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute, pipeline, query } from '../server/wire.ts'
import { findBrowser } from '../support/browser.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { BACKENDS } from './attacked-server.ts'
import { useBrowser } from './inspector-browser.ts'
import { runShopWorkload, startLockContention } from './inspector-workload.ts'

const { path: browserPath, unavailableReason } = await findBrowser()
const PICTURES_FOLDER = fileURLToPath(new URL('../../packages/local-server/docs/pictures/', import.meta.url))

const PATHS = ['/_baton', '/_baton/page.js', '/_baton/page.css', '/_baton/events', '/_baton/databases']

/** Returns the status of a response. `fetch` does not allow setting the headers that are reserved for browsers. */
async function getStatus(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<number> {
  return await new Promise((resolve, reject) => {
    const request = http.request(url, { method, headers, agent: false }, (response) => {
      response.destroy()
      resolve(response.statusCode ?? 0)
    })
    request.on('error', reject)
    request.end()
  })
}

test('the inspector is off by default', async () => {
  await expect(startLocalServer({ inspector: true, auth: true })).rejects.toThrow('without a token')
  await expect(startLocalServer({ inspector: true, platform: {} })).rejects.toThrow('without a token')
  await using server = await startLocalServer()
  expect(server.inspectorUrl).toBeNull()
  for (const path of [...PATHS, '/_baton/v3/pipeline'])
    expect([path, await getStatus(server.url + path)]).toEqual([path, 404])
  await using handler = createHandler()
  expect((await handler.fetch('http://localhost/_baton')).status).toBe(404)
  await expect(server.createDatabase('_baton')).rejects.toThrow(TypeError)
})

describe('the inspector', () => {
  let server: LocalServer
  beforeAll(async () => {
    server = await startLocalServer({
      inspector: true,
      allowOrigins: ['https://app.example'],
      domains: { 'db.example': 'default' },
    })
  })
  afterAll(() => server.close())

  test.each([
    { origin: 'https://evil.example' },
    // these origins may use the databases
    { origin: 'https://app.example' },
    { origin: 'http://localhost:3000' },
    { origin: 'null' },
    { host: 'evil.example' },
    { host: 'db.example' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'x-forwarded-for': '203.0.113.7' },
  ])('rejects %j', async (headers) => {
    for (const path of PATHS) expect([path, await getStatus(server.url + path, headers)]).toEqual([path, 403])
  })

  test('accepts requests from its own page', async () => {
    for (const path of PATHS) {
      expect(await getStatus(server.url + path)).toBe(200)
      expect(await getStatus(server.url + path, { 'sec-fetch-site': 'same-origin' })).toBe(200)
    }
    const { port } = server
    const headers = { host: `localhost:${port}`, origin: `http://localhost:${port}` }
    expect(await getStatus(`${server.url}/_baton/events`, headers)).toBe(200)
  })

  test.each(['POST', 'PUT', 'HEAD', 'OPTIONS'])('rejects %s', async (method) => {
    expect(await getStatus(`${server.url}/_baton`, {}, method)).toBe(405)
  })

  test.each(['/../../package.json', '/tsconfig.json', '/page.html', '/%2e%2e/x', '/__proto__', '/'])(
    'rejects requests for files that do not belong to the page: %s',
    async (path) => {
      expect(await getStatus(`${server.url}/_baton${path}`)).toBe(404)
    },
  )
})

describe.skipIf(browserPath === null)(
  `the request inspector${unavailableReason === null ? '' : `: ${unavailableReason}`}`,
  () => {
    const { startServer, open } = useBrowser(browserPath)

    test.each(BACKENDS)('shows statements as they arrive, with their outcome: %s', async (backend) => {
      const server = await startServer(backend)
      const { url } = await server.createDatabase('app')
      const { page, problems } = await open(server)
      expect(await page.locator('#empty').isVisible()).toBe(true)
      const db = createClient({ url })
      await db.execute('create table note (text)')
      await db.execute('insert into note values (?)', ['SECRET-ARGUMENT'])
      await db.execute('select * from note')
      await db.execute('select * from missing').catch(() => {})
      await db.close()
      const rows = page.locator('#rows tr')
      await rows.filter({ hasText: 'no such table: missing' }).waitFor()
      expect(await rows.count()).toBe(4)
      const cells = await rows.filter({ hasText: 'select * from note' }).locator('td').allTextContents()
      expect([cells[1], cells[5]]).toEqual(['app', '1'])
      expect(cells[4]).toMatch(/ m?s$/)
      const html = await page.content()
      expect(html).not.toContain('SECRET-ARGUMENT')
      // a page that is opened later also shows earlier events
      const secondInspectorPage = await open(server)
      await secondInspectorPage.page.locator('#rows tr').nth(3).waitFor()
      expect(problems).toEqual([])
    })

    test('shows a transaction on the timeline, with its round trips', async () => {
      const server = await startServer()
      const { page } = await open(server)
      const db = createClient({ url: server.url })
      await db.execute('create table t (a)')
      await db.transaction(async (tx) => {
        await tx.execute('insert into t values (1)')
        await tx.execute('insert into t values (2)')
      })
      await db.transaction((tx) => tx.execute('insert into missing values (2)')).catch(() => {})
      await db.close()
      const titles = page.locator('#timeline g.span > title')
      await expect
        .poll(async () => (await titles.allTextContents()).sort())
        .toEqual([
          expect.stringMatching(/: committed, .* [23] round trips$/),
          expect.stringMatching(/: rolled back, /),
        ])
      expect(await page.locator('#timeline .transaction.committed + .locked').count()).toBe(1)
    })

    test('shows a request on the timeline as soon as it begins', async () => {
      const server = await startServer()
      const { page } = await open(server)
      // nothing but the event itself can update the time
      await page.addInitScript('window.setInterval = () => 0')
      await page.reload()
      await page.getByText('connected', { exact: true }).waitFor()
      await query(server.url, 'select 1')
      await page.locator('#timeline rect.request').waitFor()
    })

    test('shows every one of many calls at the same time, which an event log has', async () => {
      const server = await startServer()
      const log = join(createTemporaryDirectory(), 'many.jsonl')
      const starts = Array.from({ length: 40 }, (_, id) => ({
        at: id,
        type: 'query:start',
        id,
        sql: ['select'],
      }))
      await writeFile(log, starts.map((event) => JSON.stringify(event)).join('\n'))
      const { page } = await open(server)
      await page.setInputFiles('#file', log)
      await page.getByText('40 events from').waitFor()
      expect(await page.locator('#timeline rect.request').count()).toBe(40)
    })

    test('shows the holder of the write lock, the waiters, and a transaction that lost it', async () => {
      const server = await startServer()
      await query(server.url, 'create table t (a)')
      const { page } = await open(server)
      const locks = page.locator('#locks')
      expect(await locks.textContent()).toContain('No stream holds')
      const holder = await pipeline(server.url, [execute('begin'), execute('insert into t values (1)')])
      await locks.getByText(/has held the write lock.*no requests waiting/).waitFor()
      // the waiter takes over the lock after five seconds
      const waiter = query(server.url, 'insert into t values (2)')
      const readAtOnce = `({
        locks: document.querySelector('#locks').textContent,
        waits: document.querySelectorAll('#timeline rect.waiting').length,
        streams: document.querySelectorAll('#streams li').length,
      })`
      await expect
        .poll(() => page.evaluate(readAtOnce))
        .toEqual({
          locks: expect.stringMatching(/default #1.*#2 waiting for.*insert into t values \(2\)/),
          waits: 1,
          streams: 2,
        })
      await waiter
      await locks.getByText('No stream holds').waitFor()
      await expect
        .poll(() => page.locator('#timeline g.span > title').textContent())
        .toMatch(/stream 1: lost/)
      // the wait is still shown after it has ended
      expect(await page.locator('#timeline rect.waiting').count()).toBe(1)
      expect((await pipeline(server.url, [close], { baton: holder.baton })).status).toBe(200)
      await page.locator('#rows tr').filter({ hasText: 'end of the stream' }).waitFor()
    })

    test('fits on a narrow screen, and shows when it is no longer live', async () => {
      const server = await startServer()
      const { page } = await open(server)
      await page.setViewportSize({ width: 480, height: 800 })
      await query(server.url, `select '${'long '.repeat(40)}'`)
      await page.locator('#rows tr').first().waitFor()
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(480)
      expect(await page.locator('#source').textContent()).toBe('live')
      await server.close()
      await page.getByText('not connected').waitFor()
      expect(await page.locator('#source').textContent()).toBe('not live')
    })

    test('the page of the server links to the inspector if it is enabled', async () => {
      for (const inspector of [true, false]) {
        await using server = await startLocalServer({ inspector })
        const page = await (await fetch(server.url, { headers: { accept: 'text/html' } })).text()
        expect(page.includes('href="/_baton"')).toBe(inspector)
      }
    })

    test('supports filters, errors only, pause, copying and the keyboard', async () => {
      const server = await startServer()
      const { page, problems } = await open(server)
      const rows = page.locator('#rows tr')
      await query(server.url, 'select 1 as apple')
      await query(server.url, 'select 2 as pear')
      await query(server.url, 'select * from plum').catch(() => {})
      await rows.nth(2).waitFor()

      await page.keyboard.press('/')
      await page.keyboard.type('SELECT pear')
      expect(await rows.allTextContents()).toEqual([expect.stringContaining('select 2 as pear')])
      await query(server.url, 'select 3 as apple')
      await query(server.url, 'select 4 as pear')
      await expect.poll(() => rows.count()).toBe(2)
      await page.fill('#filter', '')
      await page.check('#errors-only')
      expect(await rows.allTextContents()).toEqual([expect.stringContaining('no such table: plum')])
      await page.uncheck('#errors-only')
      expect(await rows.count()).toBe(5)

      // with the keyboard alone, wherever the focus is
      await page.locator('h1').click()
      await page.keyboard.press('ArrowDown')
      expect(await page.locator('tr[aria-selected=true]').textContent()).toContain('select 4 as pear')
      await page.keyboard.press('ArrowDown')
      expect(await page.locator('tr[aria-selected=true]').textContent()).toContain('select 3 as apple')
      expect(await page.locator('#details').textContent()).toContain('select 3 as apple')
      await page.keyboard.press('c')
      await page.getByText('Copied').waitFor()
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe('select 3 as apple')
      await page.keyboard.press('End')
      await page.getByRole('button', { name: 'Copy' }).click()
      await expect.poll(() => page.evaluate('navigator.clipboard.readText()')).toBe('select 1 as apple')
      await page.keyboard.press('Escape')
      expect(await page.locator('#details').isHidden()).toBe(true)

      await page.keyboard.press('p')
      expect(await page.locator('#pause').getAttribute('aria-pressed')).toBe('true')
      await query(server.url, 'select 5 as late')
      await page.getByText('Resume (1 new)').waitFor()
      expect(await rows.count()).toBe(5)
      await page.click('#pause')
      await expect.poll(() => rows.first().textContent()).toContain('select 5 as late')
      expect(problems).toEqual([])
    })

    test.each([
      '<img src=x onerror="globalThis.attacked = 1">',
      '</script><script>globalThis.attacked = 1</script>',
      '<svg onload="globalThis.attacked = 1"><a href="javascript:globalThis.attacked=1">x</a>',
    ])('displays hostile text as text: %s', async (text) => {
      const server = await startServer()
      const { page, problems } = await open(server)
      const sql = `select '${text}' as "${text.replaceAll('"', '""')}"`
      await query(server.url, sql)
      await pipeline(server.url, [execute(`begin`), execute(`select * from "${text.replaceAll('"', '')}"`)])
      await page.locator('#rows tr').nth(1).waitFor()
      for (const row of await page.locator('#rows tr').all()) await row.click()
      expect(await page.locator('#details pre').allTextContents()).toContain(sql)
      expect(await page.locator('main img, main script, main a').count()).toBe(0)
      expect(await page.evaluate('globalThis.attacked')).toBeUndefined()
      expect(problems).toEqual([])
    })

    test('its content security policy allows neither other scripts nor requests to other servers', async () => {
      const server = await startServer()
      const { page, problems } = await open(server)
      await page.evaluate(`{
        const script = document.createElement('script')
        try { script.textContent = 'globalThis.attacked = 1' } catch {}
        document.body.append(script)
      }`)
      expect(await page.evaluate('globalThis.attacked')).toBeUndefined()
      const outcome = await page.evaluate<string>(
        `fetch('http://localhost:1/').then(() => 'sent', () => 'refused')`,
      )
      expect(outcome).toBe('refused')
      expect(problems.join()).toMatch(/Content Security Policy/)
    })

    test('a JSON Lines file of client events produces the same timeline as the live events', async () => {
      const server = await startServer()
      const lines: string[] = []
      const db = createClient({
        url: server.url,
        observe: (event: ClientEvent) =>
          lines.push(JSON.stringify({ at: Date.now(), database: 'shop', ...event }, withMessages)),
      })
      await db.execute('create table t (a)')
      await db.transaction((tx) => tx.execute('insert into t values (1)'))
      await db.execute('select * from missing').catch(() => {})
      await db.close()
      const folder = createTemporaryDirectory()
      const [log, invalidLog] = [join(folder, 'shop.jsonl'), join(folder, 'other.jsonl')]
      await writeFile(log, `${lines.join('\n')}\nno event\n`)
      await writeFile(invalidLog, '{"type":"query:start"}\n[]\nnull\n')
      const { page, problems } = await open(server)
      await page.setInputFiles('#file', invalidLog)
      await page.getByText('has no events with a timestamp').waitFor()
      await page.setInputFiles('#file', log)
      await page.getByText('1 line skipped').waitFor()
      expect(await page.locator('#rows tr').count()).toBe(3)
      expect(await page.locator('#rows tr.failed').textContent()).toContain('no such table: missing')
      expect(await page.locator('#timeline .lane-name').textContent()).toBe('shop')
      expect(await page.locator('#timeline g.span > title').textContent()).toMatch(/: committed, /)
      // dropping the file has the same result
      await page.evaluate(`{
          const data = new DataTransfer()
          data.items.add(new File([${JSON.stringify(lines.slice(0, 4).join('\n'))}], 'dropped.jsonl'))
          document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
        }`)
      await page.getByText('4 events from dropped.jsonl').waitFor()
      // events that arrived in the meantime are shown afterwards
      await query(server.url, 'select 9 as meanwhile')
      await page.click('#back')
      await page.locator('#rows tr', { hasText: 'select 9 as meanwhile' }).waitFor()
      expect(await page.locator('#rows tr').count()).toBe(1)
      expect(problems).toEqual([])
    })

    test.each(['light', 'dark'] as const)(
      'takes the screenshots for the documentation: %s',
      async (colorScheme) => {
        const server = await startServer()
        for (const name of ['app', 'billing']) await server.createDatabase(name)
        const { page, problems } = await open(server, { colorScheme })
        await page.selectOption('#range', '5')
        const background = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor')
        expect(background).toBe(colorScheme === 'dark' ? 'rgb(17, 22, 28)' : 'rgb(244, 245, 247)')
        await runShopWorkload(server)
        await using lock = await startLockContention(server.urlOf('app'))
        await page.locator('#locks').getByText('waiting for').first().waitFor()
        // long enough to be visible
        await page.waitForTimeout(1_200)
        expect(problems).toEqual([])
        await page.locator('#rows tr', { hasText: 'update orders' }).first().click()
        const picture = await page.screenshot()
        await lock.finish()
        expect(picture.length).toBeLessThan(150_000)
        if (process.env['WRITE_PICTURES'] === '1')
          await writeFile(`${PICTURES_FOLDER}inspector-${colorScheme}.png`, picture)
      },
    )
  },
)

/** A JSON replacer that keeps the message of an error. */
function withMessages(_: string, value: unknown): unknown {
  return value instanceof Error ? Object.assign({ message: value.message }, value) : value
}
