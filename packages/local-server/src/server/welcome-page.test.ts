import { expect, test } from 'vitest'
import { createHandler } from './handler.ts'

test.each([
  ['http://localhost:8080/', {}, 'http://localhost:8080'],
  ['http://app.localhost:8080/', {}, 'http://app.localhost:8080'],
  // the page of a database does not say that the URL of the host is its URL
  ['http://localhost:8080/app/', {}, 'http://localhost:8080'],
  ['http://localhost/', { 'x-forwarded-proto': 'https' }, 'https://localhost'],
  ['https://localhost/', {}, 'https://localhost'],
  ['https://localhost/', { 'x-forwarded-proto': 'http' }, 'https://localhost'],
])('at %s with %j, shows the URL of the host and the form of others', async (address, headers, url) => {
  await using handler = createHandler()
  const response = await handler.fetch(address, { headers: { ...headers, accept: 'text/html' } })
  const page = await response.text()
  expect(page).toContain('to the database of this host')
  expect(page).toContain(`<pre>DATABASE_URL=${url}</pre>`)
  expect(page).toContain(`<code>${url}/NAME/</code>`)
})
