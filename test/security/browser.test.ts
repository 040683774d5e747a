import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { close, execute } from '../server/wire.ts'
import { findBrowser } from '../support/browser.ts'
import { TestHttpServer } from '../support/test-http-server.ts'
import { AttackedServer, KINDS } from './attacked-server.ts'

const { path: browserPath, unavailableReason } = await findBrowser()
const SELECT = JSON.stringify({ requests: [execute('select 42'), close] })
const INSERT = JSON.stringify({ requests: [execute('insert into t values (666)'), close] })

describe.skipIf(browserPath === null)(
  `in a real browser${unavailableReason === null ? '' : `: ${unavailableReason}`}`,
  () => {
    let browser: Browser
    let pageServer: TestHttpServer
    let pageServerPort: string

    beforeAll(async () => {
      // names that resolve to this machine, as a malicious name server might return
      const rules = ['evil.example', 'app.example'].map((name) => `MAP ${name} 127.0.0.1`).join(',')
      const args = ['--no-sandbox', '--disable-dev-shm-usage', `--host-resolver-rules=${rules}`]
      browser = await chromium.launch({ executablePath: browserPath as string, args })
      pageServer = await new TestHttpServer().listen()
      pageServer.http.on('request', (_, response) => {
        response.setHeader('content-type', 'text/html')
        response.end('<!doctype html><title>a page</title>')
      })
      pageServerPort = new URL(pageServer.url).port
    }, 180_000)
    afterAll(async () => {
      await browser.close()
      await pageServer.close()
    })

    describe.each(KINDS)('$backend, auth $auth', (kind) => {
      let attacked: AttackedServer
      let headers: Record<string, string>

      beforeAll(async () => {
        attacked = await AttackedServer.start(kind, {
          allowOrigins: [`http://app.example:${pageServerPort}`],
        })
        headers = await attacked.headers()
        const requests = [execute('create table t(a)'), close]
        expect((await attacked.post('/app/v2/pipeline', { requests }, headers)).status).toBe(200)
      })
      afterAll(() => attacked[Symbol.asyncDispose]())

      async function expectNothingWritten(): Promise<void> {
        const requests = [execute('select count(*) from t'), close]
        expect((await attacked.post('/app/v2/pipeline', { requests }, headers)).text).toContain('"value":"0"')
      }

      async function withPage(url: string, task: (page: Page) => Promise<void>): Promise<void> {
        const page = await browser.newPage()
        try {
          await page.goto(url)
          await task(page)
        } finally {
          await page.close()
        }
      }

      /** Sends a request from a script of the page. @returns the result that the script receives */
      async function fetchFrom(page: Page, path: string, init: object): Promise<string> {
        const url = new URL(path, attacked.server.url).href
        return await page.evaluate<string>(`(async () => {
        try {
          const response = await fetch(${JSON.stringify(url)}, ${JSON.stringify(init)})
          return response.type + ' ' + response.status + ' ' + (await response.text())
        } catch (error) {
          return String(error)
        }
      })()`)
      }

      test('a page from another origin can neither read nor write', async () => {
        await withPage(`http://evil.example:${pageServerPort}/`, async (page) => {
          const plainHeaders = { ...headers, 'content-type': 'text/plain' }
          expect(await fetchFrom(page, '/app/v2/pipeline', { method: 'POST', body: SELECT })).toMatch(
            /Failed to fetch/,
          )
          expect(
            await fetchFrom(page, '/app/v2/pipeline', {
              method: 'POST',
              body: INSERT,
              headers: plainHeaders,
            }),
          ).toMatch(/Failed to fetch/)
          expect(await fetchFrom(page, '/version', {})).toMatch(/Failed to fetch/)
          // sent without a preflight, and not readable in any case
          await fetchFrom(page, '/app/v2/pipeline', { method: 'POST', body: INSERT, mode: 'no-cors' })
          const beacon = [`${attacked.url()}/v2/pipeline`, INSERT].map((text) => JSON.stringify(text)).join()
          await page.evaluate(`navigator.sendBeacon(${beacon})`)
          const loaded = await page.evaluate<string>(`new Promise((resolve) => {
          const script = document.createElement('script')
          script.src = ${JSON.stringify(`${attacked.url()}/dump`)}
          script.onload = () => resolve('loaded')
          script.onerror = () => resolve('refused')
          document.head.append(script)
        })`)
          expect(loaded).toBe('refused')
          await page.setContent(
            `<form method="post" enctype="text/plain" action="${attacked.url()}/v2/pipeline">
             <input name='${INSERT.slice(0, -1).replaceAll("'", '&#39;')},"x":"' value='"}'></form>`,
          )
          await Promise.all([page.waitForNavigation(), page.evaluate('document.forms[0].submit()')])
          expect(await page.textContent('body')).toContain('are not allowed to use this server')
        })
        await expectNothingWritten()
      })

      test('a page whose host name resolves to this machine can neither read nor write', async () => {
        const { port } = attacked.server
        await withPage(`http://evil.example:${port}/`, async (page) => {
          const sameOrigin = `http://evil.example:${port}`
          expect(await fetchFrom(page, `${sameOrigin}/version`, {})).toMatch(
            /^basic 403 .*not serve the host `evil\.example`/,
          )
          const response = await fetchFrom(page, `${sameOrigin}/app/v2/pipeline`, {
            method: 'POST',
            body: INSERT,
            headers,
          })
          expect(response).toMatch(/^basic 403 /)
        })
        await expectNothingWritten()
      })

      test('a page without an origin can neither read nor write', async () => {
        await withPage(`http://localhost:${pageServerPort}/`, async (page) => {
          const init = JSON.stringify({ method: 'POST', body: INSERT })
          const call = `fetch(${JSON.stringify(`${attacked.url()}/v2/pipeline`)}, ${init})`
          const script = `${call}.then((r) => r.status, String).then((m) => parent.postMessage(String(m), '*'))`
          const response = await page.evaluate<string>(`new Promise((resolve) => {
          addEventListener('message', ({ data }) => resolve(data))
          const frame = document.createElement('iframe')
          frame.setAttribute('sandbox', 'allow-scripts')
          frame.srcdoc = '<script>' + ${JSON.stringify(script)} + '<' + '/script>'
          document.body.append(frame)
        })`)
          expect(response).toMatch(/Failed to fetch/)
        })
        await expectNothingWritten()
      })

      test.each(['localhost', '127.0.0.1', 'app.example'])(
        'pages from %s, which is allowed, can use the server',
        async (host) => {
          await withPage(`http://${host}:${pageServerPort}/`, async (page) => {
            // headers that are not CORS-safelisted make the browser send a preflight
            const jsonHeaders = { ...headers, 'content-type': 'application/json', 'x-other': '1' }
            const response = await fetchFrom(page, '/app/v2/pipeline', {
              method: 'POST',
              body: SELECT,
              headers: jsonHeaders,
            })
            expect(response).toMatch(/^cors 200 .*"value":"42"/)
          })
        },
      )

      test('the URL shows a description of the server in a browser', async () => {
        await withPage(attacked.server.url, async (page) => {
          expect(await page.title()).toBe('Baton local server')
          expect(await page.textContent('pre')).toBe(`DATABASE_URL=${attacked.server.url}`)
        })
      })
    })
  },
)
