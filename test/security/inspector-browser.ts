import { type LocalServer, startLocalServer } from '@batonsql/local-server'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, onTestFinished } from 'vitest'

/** The request inspector in a browser. */
interface InspectorPage {
  readonly page: Page
  /** The errors that the page has logged, including violations of its policy. */
  readonly problems: readonly string[]
}

/** Starts a browser for the calling test file. @returns functions that open servers and pages until the test ends */
export function useBrowser(executablePath: string | null) {
  let browser: Browser
  beforeAll(async () => {
    const args = ['--no-sandbox', '--disable-dev-shm-usage']
    browser = await chromium.launch({ executablePath: executablePath as string, args })
  }, 180_000)
  afterAll(() => browser.close())

  const startServer = async (backend: 'embedded' | 'sqld' = 'embedded'): Promise<LocalServer> => {
    const server = await startLocalServer({ backend, inspector: true })
    onTestFinished(() => server.close())
    return server
  }

  /** Opens the page and waits until it is connected. */
  const open = async (
    server: LocalServer,
    options: { readonly colorScheme?: 'light' | 'dark' } = {},
  ): Promise<InspectorPage> => {
    const context = await browser.newContext({
      viewport: { width: 1_160, height: 700 },
      permissions: ['clipboard-read', 'clipboard-write'],
      ...options,
    })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    page.on('pageerror', (error) => problems.push(String(error)))
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text())
    })
    await page.goto(String(server.inspectorUrl))
    await page.getByText('connected', { exact: true }).waitFor()
    return { page, problems }
  }
  return { startServer, open }
}
