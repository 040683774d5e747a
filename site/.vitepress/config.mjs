import { defineConfig } from 'vitepress'
import { GROUPS, REFERENCE } from '../pages.mjs'

const link = (to) => `/${to.replace(/(^|\/)index$/, '$1')}`

/** Anchors as on GitHub, where the pages are read, too. */
const slugify = (title) =>
  title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(/\s/g, '-')

export default defineConfig({
  title: 'Baton',
  description: 'Use a SQLite/libSQL database over HTTP with Kysely, with Drizzle, or without an ORM.',
  srcDir: 'pages',
  outDir: 'dist',
  cleanUrls: true,
  // no favicon, and no request for one
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  // the search index is a single chunk
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
  lastUpdated: false,
  markdown: { html: false, anchor: { slugify }, headers: { slugify } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Start', link: '/start' },
      { text: 'Concepts', link: '/concepts' },
      { text: 'Errors', link: '/errors' },
      { text: 'Reference', link: '/reference/' },
    ],
    sidebar: [
      ...GROUPS.map(({ title, pages }) => ({
        text: title,
        items: pages
          .filter(({ to }) => to !== undefined)
          .map((page) => ({ text: page.title, link: link(page.to) })),
      })),
      {
        text: 'Reference',
        collapsed: true,
        items: REFERENCE.flatMap(({ entries }) => Object.keys(entries)).map((name) => ({
          text: name,
          link: `/reference/${name}/`,
        })),
      },
    ],
  },
})
