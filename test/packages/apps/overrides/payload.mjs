import assert from 'node:assert/strict'
import { sqliteAdapter } from '@payloadcms/db-sqlite'
import { buildConfig, getPayload } from 'payload'

const config = await buildConfig({
  secret: 'x',
  telemetry: false,
  typescript: { autoGenerate: false },
  collections: [
    { slug: 'authors', fields: [{ name: 'name', type: 'text', required: true, unique: true }] },
    {
      slug: 'posts',
      fields: [
        { name: 'title', type: 'text' },
        { name: 'author', type: 'relationship', relationTo: 'authors' },
        { name: 'tags', type: 'array', fields: [{ name: 'tag', type: 'text' }] },
        { name: 'views', type: 'number' },
      ],
    },
  ],
  db: sqliteAdapter({ client: { url: process.env.DATABASE_URL }, transactionOptions: {}, push: true }),
})
const payload = await getPayload({ config })
const author = await payload.create({ collection: 'authors', data: { name: 'Ada' } })
const post = await payload.create({
  collection: 'posts',
  data: { title: 't', author: author.id, tags: [{ tag: 'a' }, { tag: 'b' }], views: 3 },
})
const { docs } = await payload.find({
  collection: 'posts',
  where: { 'author.name': { equals: 'Ada' } },
  depth: 1,
})
assert.equal(docs.length, 1)
assert.equal(docs[0].author.name, 'Ada')
assert.deepEqual(
  docs[0].tags.map((t) => t.tag),
  ['a', 'b'],
)
assert.equal(docs[0].views, 3)
await assert.rejects(payload.create({ collection: 'authors', data: { name: 'Ada' } }))
await payload.update({ collection: 'posts', id: post.id, data: { title: 'u', tags: [] } })
assert.equal((await payload.findByID({ collection: 'posts', id: post.id })).title, 'u')
await payload.delete({ collection: 'posts', id: post.id })
assert.equal((await payload.count({ collection: 'posts' })).totalDocs, 0)
console.log('payload: ok')
process.exit(0)
