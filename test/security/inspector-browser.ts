import type { LocalServer } from '@batonsql/local-server'
import type { Browser, BrowserContext, Page } from 'playwright-core'

/** The request inspector in a browser. */
export interface InspectorPage extends AsyncDisposable {
  readonly page: Page
  readonly context: BrowserContext
  /** The errors that the page has logged, including violations of its policy. */
  readonly problems: readonly string[]
}

/** Opens the page and waits until it is connected. */
export async function openInspector(
  browser: Browser,
  server: LocalServer,
  options: { readonly colorScheme?: 'light' | 'dark' } = {},
): Promise<InspectorPage> {
  const context = await browser.newContext({
    viewport: { width: 1_160, height: 700 },
    permissions: ['clipboard-read', 'clipboard-write'],
    ...options,
  })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text())
  })
  await page.goto(String(server.inspectorUrl))
  await page.getByText('connected', { exact: true }).waitFor()
  return { page, context, problems, [Symbol.asyncDispose]: () => context.close() }
}
