import type { ServiceResponse } from './service-request.ts'

/**
 * Returns a page that loads nothing and cannot be framed by other pages.
 * @param content HTML of its body
 * @param policy further directives of its content security policy, which allow what it needs
 */
export function htmlResponse(
  status: number,
  title: string,
  content: string,
  policy: string,
): ServiceResponse {
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${escapeHtml(title)}</title>
${content}
</html>
`
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; frame-ancestors 'none'; ${policy}`,
    'x-content-type-options': 'nosniff',
  }
  return { status, headers, body }
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
