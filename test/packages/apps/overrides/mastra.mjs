import assert from 'node:assert/strict'
import { LibSQLStore, LibSQLVector } from '@mastra/libsql'

const url = process.env.DATABASE_URL
const store = new LibSQLStore({ id: 's', url })
await store.init()
const memory = await store.getStore('memory')
const thread = {
  id: 't1',
  resourceId: 'r',
  title: 'x',
  metadata: { a: 1 },
  createdAt: new Date(),
  updatedAt: new Date(),
}
await memory.saveThread({ thread })
assert.equal((await memory.getThreadById({ threadId: 't1' })).title, 'x')
await memory.saveMessages({
  messages: [
    {
      id: 'm1',
      threadId: 't1',
      resourceId: 'r',
      role: 'user',
      content: { format: 2, parts: [{ type: 'text', text: 'hello' }] },
      createdAt: new Date(),
    },
  ],
})
const { messages } = await memory.listMessages({ threadId: 't1' })
assert.equal(messages.length, 1)
const vectors = new LibSQLVector({ id: 'v', url })
await vectors.createIndex({ indexName: 'docs', dimension: 3 })
await vectors.upsert({
  indexName: 'docs',
  vectors: [
    [1, 0, 0],
    [0, 1, 0],
  ],
  metadata: [{ n: 1 }, { n: 2 }],
  ids: ['a', 'b'],
})
const matches = await vectors.query({ indexName: 'docs', queryVector: [1, 0.1, 0], topK: 1 })
assert.equal(matches[0].id, 'a')
console.log('mastra: ok')
process.exit(0)
