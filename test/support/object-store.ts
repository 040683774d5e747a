import type { IncomingMessage, ServerResponse } from 'node:http'
import { TestHttpServer } from './test-http-server.ts'

const MAX_LISTED = 1_000

/**
 * The part of S3 that a backup needs: puts, reads, lists and deletes the objects of one bucket, at paths
 * `/<bucket>/<key>`, and keeps them in memory. It does not check credentials, and does not support versioning, multipart uploads
 * or ranges.
 */
export class ObjectStore extends TestHttpServer {
  readonly bucket: string
  readonly #objects = new Map<string, Buffer>()

  private constructor(bucket: string) {
    super()
    this.bucket = bucket
    this.http.on('request', (request, response) => void this.#respond(request, response))
  }

  static async start(bucket: string): Promise<ObjectStore> {
    return await new ObjectStore(bucket).listen()
  }

  /** Keys of the stored objects. */
  get keys(): readonly string[] {
    return [...this.#objects.keys()].sort()
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
    const { pathname, searchParams } = new URL(request.url ?? '/', this.url)
    const [, bucket = '', ...segments] = pathname.split('/').map(decodeURIComponent)
    const key = segments.join('/')
    if (bucket !== this.bucket) return respondWithError(response, 404, 'NoSuchBucket')
    if (key === '') return this.#respondForBucket(request.method ?? 'GET', searchParams, response)
    this.#respondForObject(request.method ?? 'GET', key, Buffer.concat(parts), response)
  }

  #respondForBucket(method: string, query: URLSearchParams, response: ServerResponse): void {
    if (method !== 'GET') return void response.end()
    const prefix = query.get('prefix') ?? ''
    const marker = query.get('marker') ?? query.get('start-after') ?? query.get('continuation-token') ?? ''
    const delimiter = query.get('delimiter') ?? ''
    const limit = Math.min(Number(query.get('max-keys') ?? MAX_LISTED), MAX_LISTED)
    const matches = this.keys.filter((key) => key.startsWith(prefix) && key > marker)
    const getCommonPrefix = (key: string): string | null => {
      const end = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length)
      return end < 0 ? null : key.slice(0, end + delimiter.length)
    }
    const entries = [...new Set(matches.map((key) => getCommonPrefix(key) ?? key))]
    const page = entries.slice(0, limit)
    const isObject = (entry: string): boolean => this.#objects.has(entry) && getCommonPrefix(entry) === null
    const contents = page.filter(isObject).map((key) => this.#describe(key))
    const prefixes = page
      .filter((entry) => !isObject(entry))
      .map((entry) => `<CommonPrefixes><Prefix>${escapeXml(entry)}</Prefix></CommonPrefixes>`)
    const isTruncated = page.length < entries.length
    const next = isTruncated ? `<NextMarker>${escapeXml(page.at(-1) ?? '')}</NextMarker>` : ''
    response.setHeader('content-type', 'application/xml')
    response.end(
      `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>${this.bucket}</Name>` +
        `<Prefix>${escapeXml(prefix)}</Prefix><MaxKeys>${limit}</MaxKeys><IsTruncated>${isTruncated}</IsTruncated>` +
        `${next}${contents.join('')}${prefixes.join('')}</ListBucketResult>`,
    )
  }

  #describe(key: string): string {
    const size = this.#objects.get(key)?.length ?? 0
    return `<Contents><Key>${escapeXml(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>${size}</Size></Contents>`
  }

  #respondForObject(method: string, key: string, body: Buffer, response: ServerResponse): void {
    if (method === 'PUT') {
      this.#objects.set(key, body)
      response.setHeader('etag', '"0"')
      return void response.end()
    }
    if (method === 'DELETE') {
      this.#objects.delete(key)
      response.statusCode = 204
      return void response.end()
    }
    const content = this.#objects.get(key)
    if (content === undefined) return respondWithError(response, 404, 'NoSuchKey')
    response.setHeader('content-length', content.length)
    response.setHeader('last-modified', 'Thu, 01 Jan 2026 00:00:00 GMT')
    response.end(method === 'HEAD' ? undefined : content)
  }
}

function respondWithError(response: ServerResponse, status: number, code: string): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/xml')
  response.end(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code></Error>`)
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
