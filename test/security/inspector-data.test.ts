import { text } from 'node:stream/consumers'
import { createClient } from '@batonsql/core'
import type { LocalServer } from '@batonsql/local-server'
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { query } from '../server/wire.ts'
import { findBrowser } from '../support/browser.ts'
import { ENDLESS_READ } from '../support/fixtures.ts'
import { BACKENDS } from './attacked-server.ts'
import { useBrowser } from './inspector-browser.ts'

// The Data tab of the request inspector.

const { path: browserPath, unavailableReason } = await findBrowser()

describe.skipIf(browserPath === null)(
  `the Data tab of the inspector${unavailableReason === null ? '' : `: ${unavailableReason}`}`,
  () => {
    const { startServer, open } = useBrowser(browserPath)

    const openDataTab = async (server: LocalServer) => {
      const inspectorPage = await open(server)
      await inspectorPage.page.getByRole('tab', { name: 'Data' }).click()
      await inspectorPage.page.locator('#database option').first().waitFor({ state: 'attached' })
      return inspectorPage
    }
    const chooseTable = async (page: Page, table: string): Promise<void> => {
      await page.locator('#tables').getByRole('button', { name: table }).click()
      await page.getByRole('heading', { name: table, exact: true }).waitFor()
    }
    const readCells = (page: Page): Promise<string[]> => page.locator('.grid tbody td').allTextContents()
    const downloadFrom = async (page: Page) => {
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('#download')])
      return { name: download.suggestedFilename(), text: await text(await download.createReadStream()) }
    }
    const runStatement = async (page: Page, sql: string): Promise<void> => {
      await page.fill('#sql', sql)
      await page.keyboard.press('Control+Enter')
    }

    test.each(BACKENDS)('shows tables, pages of rows, and exact values: %s', async (backend) => {
      const server = await startServer(backend)
      const { url } = await server.createDatabase('app')
      const db = createClient({ url })
      await db.batch([
        'create table many (id integer primary key, text text)',
        "insert into many with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) select i, 'row ' || i from n",
        'create table exact (a, b, c, d, e)',
        "insert into exact values (9007199254740993, 1.0, null, x'00ff', -0.5)",
        'create view names as select text from many where id < 3',
      ])
      await db.close()
      const { page, problems } = await openDataTab(server)
      await page.selectOption('#database', 'app')
      await page.locator('#tables li').nth(2).waitFor()
      expect(await page.locator('#tables li').allTextContents()).toEqual([
        'exact1',
        'many100,000',
        'namesview ',
      ])

      await chooseTable(page, 'many')
      expect(await page.locator('#page').textContent()).toBe('rows 1 to 100 of 100,000')
      expect((await readCells(page)).slice(0, 2)).toEqual(['1', 'row 1'])
      expect(await page.locator('#previous').isDisabled()).toBe(true)
      await page.click('#next')
      await page.getByText('rows 101 to 200').waitFor()
      expect((await readCells(page)).slice(-2)).toEqual(['200', 'row 200'])
      await page.click('#previous')
      await page.getByText('rows 1 to 100').waitFor()

      await chooseTable(page, 'exact')
      expect(await readCells(page)).toEqual(['9007199254740993', '1.0', 'NULL', 'blob, 2 B', '-0.5'])
      await page.getByRole('button', { name: 'blob, 2 B' }).click()
      expect(await page.locator('#cell pre').textContent()).toBe('00 ff')
      await chooseTable(page, 'names')
      expect(await readCells(page)).toEqual(['row 1', 'row 2'])
      expect(await page.locator('#next').isDisabled()).toBe(true)
      expect(problems).toEqual([])
    })

    test.each(BACKENDS)(
      'opens the first table, sorts, and downloads all rows as CSV: %s',
      async (backend) => {
        const server = await startServer(backend)
        await using db = createClient({ url: server.url })
        await db.batch([
          'create view a_view as select 1 as one',
          'create table item (key text primary key, size int) without rowid',
          "insert into item with recursive n(i) as (select 1 union all select i + 1 from n where i < 150) select 'k' || printf('%03d', i), 1000 - i from n",
          'create table odd (a, """b, c")',
          "insert into odd values (9007199254740993, '7'), (1.0, 'say \"hi\",' || char(13, 10)), (null, ''), (x'00ff', -0.5)",
        ])
        const { page, problems } = await openDataTab(server)
        await page.getByRole('heading', { name: 'item', exact: true }).waitFor()
        expect((await readCells(page)).slice(0, 2)).toEqual(['k001', '999'])
        const sort = page.locator('.grid thead').getByRole('button', { name: 'size' })
        await sort.click()
        await page.locator('th[aria-sort=ascending]', { hasText: 'size' }).waitFor()
        expect((await readCells(page)).slice(0, 2)).toEqual(['k150', '850'])
        await page.click('#next')
        await page.getByText('rows 101 to 150').waitFor()
        expect((await readCells(page)).slice(-2)).toEqual(['k001', '999'])
        // a row without a rowid is found by its position in the sorted list
        await page.locator('.grid tbody tr').last().locator('button').first().click()
        await page.locator('#cell pre', { hasText: 'k001' }).waitFor()
        await sort.click()
        await page.locator('th[aria-sort=descending]', { hasText: 'size' }).waitFor()
        expect(await page.locator('#page').textContent()).toBe('rows 1 to 100 of 150')
        expect((await readCells(page)).slice(0, 2)).toEqual(['k001', '999'])
        const csv = await downloadFrom(page)
        expect(csv.name).toBe('item.csv')
        expect(csv.text.split('\n').slice(0, 3)).toEqual(['key,size', 'k001,999', 'k002,998'])
        expect(csv.text.split('\n')).toHaveLength(152)
        await sort.click()
        await page.locator('th[aria-sort]').waitFor({ state: 'detached' })

        await chooseTable(page, 'odd')
        const odd = 'a,"""b, c"\n9007199254740993,"7"\n1.0,"say ""hi"",\r\n"\n,""\nx\'00ff\',-0.5\n'
        expect((await downloadFrom(page)).text).toBe(odd)
        await runStatement(page, 'select * from odd')
        await page.getByRole('heading', { name: 'Result' }).waitFor()
        expect(await downloadFrom(page)).toEqual({ name: 'result.csv', text: odd })
        expect(problems).toEqual([])
      },
    )

    test.each(BACKENDS)(
      'truncates a 1 MB value in the list, but not when it is opened: %s',
      async (backend) => {
        const server = await startServer(backend)
        // rows arrive in a different order than in the index
        await query(server.url, 'create table doc (key text primary key, body text, size int) without rowid')
        await query(server.url, 'create index by_body on doc (body)')
        for (const [key, letter] of [
          ['a', 'z'],
          ['b', 'y'],
        ])
          await query(
            server.url,
            `insert into doc values ('${key}', printf('%.*c', 1000000, '${letter}'), 1)`,
          )
        await query(server.url, 'create table file (name text, body blob)')
        await query(server.url, "insert into file values ('first', zeroblob(1000000)), ('second', x'01')")
        // the functions of SQLite stop at the U+0000
        await query(
          server.url,
          "create table early as select 'a' || char(0) || printf('%.*c', 900, 'b') as end",
        )
        const { page, problems } = await openDataTab(server)
        for (const [row, letter] of ['z', 'y'].entries()) {
          await chooseTable(page, 'doc')
          const cell = page.locator('.grid tbody tr').nth(row).locator('button').nth(1)
          expect(await cell.textContent()).toBe(`${letter.repeat(200)}…`)
          await cell.click()
          // the value of the previous row may still be shown
          await page.locator('#cell pre', { hasText: letter.repeat(1_000) }).waitFor()
          await page.getByText('1,000,000 characters').waitFor()
          expect(await page.locator('#cell pre').textContent()).toBe(letter.repeat(1_000_000))
        }
        await chooseTable(page, 'file')
        expect(await readCells(page)).toEqual(['first', 'blob, 976.6 KiB', 'second', 'blob, 1 B'])
        await page.getByRole('button', { name: '976.6 KiB' }).click()
        await page.getByText('the first 64.0 KiB').waitFor()
        expect((await page.locator('#cell pre').textContent())?.replaceAll(/\s/g, '')).toBe(
          '00'.repeat(64 * 1_024),
        )
        await chooseTable(page, 'early')
        expect(await readCells(page)).toEqual(['a…'])
        await page.locator('.grid tbody button').click()
        await page.getByText('902 characters').waitFor()
        expect(problems).toEqual([])
      },
    )

    test.each(BACKENDS)('rejects a statement if the server reports that it writes: %s', async (backend) => {
      const server = await startServer(backend)
      await query(server.url, 'create table t (a)')
      await query(server.url, 'insert into t values (1)')
      await query(server.url, 'create table vec (e F32_BLOB(2))')
      await query(server.url, 'create index vec_e on vec(libsql_vector_idx(e))')
      const countRows = async (): Promise<unknown> => await query(server.url, 'select count(*) from t')
      const before = await countRows()
      const { page } = await openDataTab(server)
      for (const sql of [
        'insert into t values (2)',
        'with x as (select 2) insert into t select * from x returning a',
        'drop table t',
        'pragma user_version = 3',
        'create table u (a)',
      ]) {
        await runStatement(page, sql)
        await page.getByText('This statement may change the database').waitFor()
        const isChange = /^(?:insert|with)/.test(sql)
        await runStatement(page, `explain query plan ${isChange ? sql : 'select 1'}`)
        await page.getByText('This statement may change the database').waitFor({ state: 'detached' })
      }
      // libSQL would execute these when it prepares them
      for (const sql of [
        'drop index vec_e',
        'explain drop index vec_e',
        'explain query plan drop table vec',
      ]) {
        await runStatement(page, sql)
        await page.getByText('This statement may change the database').waitFor()
        await runStatement(page, 'select 1')
        await page.getByText('This statement may change the database').waitFor({ state: 'detached' })
      }
      await query(server.url, "insert into vec values (vector('[1,2]'))")
      await query(server.url, 'drop index vec_e')
      await query(server.url, 'drop table vec')
      for (const sql of ['commit', 'rollback', 'end', 'select 1; delete from t']) {
        await runStatement(page, sql)
        await page.locator('#run').click()
      }
      expect(await countRows()).toEqual(before)
      await page.check('#may-write')
      await runStatement(page, 'insert into t values (2), (3)')
      await page.getByText('2 rows changed').waitFor()
      await expect.poll(() => page.locator('#tables li').allTextContents()).toEqual(['t3'])
      // the statement runs to completion even if it returns more rows than are shown
      await runStatement(
        page,
        'with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) insert into t select i from n returning a',
      )
      await page.getByText('the first 1000 rows, 20000 rows changed').waitFor()
      await expect.poll(() => page.locator('#tables li').allTextContents()).toEqual(['t20,003'])
      await runStatement(page, 'delete from t where rowid > 3')
      await expect.poll(() => page.locator('#tables li').allTextContents()).toEqual(['t3'])
      await page.uncheck('#may-write')
      await runStatement(page, 'delete from t')
      await page.getByText('This statement may change the database').waitFor()
      expect(await page.locator('#tables li').allTextContents()).toEqual(['t3'])
    })

    test('handles a view of a missing table, changed rows, and switching to another database', async () => {
      const server = await startServer()
      await query(server.url, 'create view broken as select * from missing')
      await query(server.url, 'create table doc (key text primary key, body text) without rowid')
      for (const key of ['a', 'b', 'c'])
        await query(server.url, `insert into doc values ('${key}', printf('%.*c', 300, '${key}'))`)
      const { url } = await server.createDatabase('other')
      await query(url, 'create table elsewhere (a)')
      const { page } = await openDataTab(server)
      await page.locator('#tables li').nth(1).waitFor()
      expect(await page.locator('#tables li').allTextContents()).toEqual(['brokenview ', 'doc3'])
      // the page opens it by itself: choosing it again would list the rows a second time, perhaps after the DELETE
      await page.locator('.grid tbody tr').nth(2).waitFor()
      await query(server.url, "delete from doc where key = 'a'")
      await page.locator('.grid tbody tr').nth(1).locator('button').nth(1).click()
      await page.getByRole('alert').getByText('The rows have changed').waitFor()
      // the response for the previous database arrives last
      const [held, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      await page.route('**/default/v2/pipeline', async (route) => {
        held.resolve()
        await released.promise
        await route.continue()
      })
      await page.getByRole('button', { name: 'Refresh' }).click()
      await held.promise
      await page.selectOption('#database', 'other')
      await page.getByRole('button', { name: 'elsewhere' }).waitFor()
      const response = page.waitForResponse('**/default/v2/pipeline')
      released.resolve()
      await (await response).finished()
      await page.getByRole('button', { name: 'elsewhere' }).click()
      await page.getByRole('heading', { name: 'elsewhere' }).waitFor()
      expect(await page.locator('#tables li').allTextContents()).toEqual(['elsewhere0'])
    })

    test.each(BACKENDS)('shows results, query plans and errors: %s', async (backend) => {
      const server = await startServer(backend)
      await query(server.url, 'create table t (a integer primary key, b)')
      const { page, problems } = await openDataTab(server)
      await runStatement(page, 'select 1 as x, 2 as x, null as y')
      await page.locator('#result-count').getByText('1 row,').waitFor()
      expect(await page.locator('.grid th').allTextContents()).toEqual(['x', 'x', 'y'])
      expect(await readCells(page)).toEqual(['1', '2', 'NULL'])
      // an endless statement is aborted after the rows that are shown
      await runStatement(
        page,
        'with recursive n(i) as (select 1 union all select i + 1 from n) select i from n',
      )
      await page.getByText('the first 1000 rows').waitFor()
      expect(await page.locator('.grid tbody tr').count()).toBe(1_000)
      // an endless view does not prevent the list from being shown
      await query(server.url, `create view endless as ${ENDLESS_READ}`)
      await page.getByRole('button', { name: 'Refresh' }).click()
      await page.getByRole('button', { name: 'endless' }).waitFor()
      const before = server.requestCount('default')
      await runStatement(page, ENDLESS_READ)
      await expect.poll(() => server.requestCount('default')).toBe(before + 2)
      await page.click('#stop')
      await page.locator('#run').waitFor()
      expect(await page.getByRole('alert').count()).toBe(0)
      await page.fill('#sql', 'select * from t where a = 1')
      await page.click('#explain')
      await page.getByText('SEARCH t USING INTEGER PRIMARY KEY').waitFor()
      await runStatement(page, 'select * from missing')
      await page.getByRole('alert').getByText('no such table: missing').waitFor()
      // these statements hold no lock, and are not listed among the requests
      await query(server.url, 'insert into t values (1, 2)')
      await page.getByRole('tab', { name: 'Requests' }).click()
      await page.locator('#rows tr', { hasText: 'insert into t' }).waitFor()
      await page.locator('#rows tr', { hasText: 'create view endless' }).waitFor()
      expect(await page.locator('#rows tr').count()).toBe(2)
      expect(problems).toEqual([])
    })

    test.each(BACKENDS)(
      'opens the database default, shows why a statement is rejected, and removes the previous result: %s',
      async (backend) => {
        const server = await startServer(backend)
        await server.createDatabase('app')
        await query(server.url, 'create table t (a)')
        const { page } = await openDataTab(server)
        await page.getByRole('button', { name: 't', exact: false }).first().waitFor()
        expect(await page.locator('#database').inputValue()).toBe('default')
        for (const mayWrite of [false, true]) {
          await page.locator('#may-write').setChecked(mayWrite, { force: true })
          await runStatement(page, 'select 1 as one')
          await page.getByRole('heading', { name: 'Result' }).waitFor()
          await runStatement(page, 'select 1; select 2')
          await page.getByRole('alert').getByText('SQL string contains more than one statement').waitFor()
          expect(await page.getByRole('heading', { name: 'Result' }).count()).toBe(0)
          await runStatement(page, '-- nothing')
          await page.getByRole('alert').getByText('SQL string does not contain any statement').waitFor()
          await runStatement(page, 'select "(')
          await page
            .getByRole('alert')
            .getByText(/^SQL (?:input error|string could not be parsed): /)
            .waitFor()
        }
      },
    )

    test('displays names and values with markup as text', async () => {
      const hostileText =
        '<img src=x onerror="globalThis.attacked = 1"></script><script>globalThis.attacked = 1</script>'
      const name = `"${hostileText.replaceAll('"', '""')}"`
      const server = await startServer()
      await query(server.url, `create table ${name} (${name} text, "__proto__" text)`)
      await query(server.url, `insert into ${name} values ('${hostileText}', '${hostileText}')`)
      const { page, problems } = await openDataTab(server)
      await page.locator('#tables button').click()
      await page.locator('#page').getByText('rows 1 to 1').waitFor()
      expect(await page.locator('.grid th').allTextContents()).toEqual([hostileText, '__proto__'])
      await page.locator('.grid td button').first().click()
      expect(await page.locator('#cell pre').textContent()).toBe(hostileText)
      await runStatement(page, `select * from ${name}`)
      await page.locator('#result-count').waitFor()
      await runStatement(page, `select * from "${hostileText.replaceAll('"', '')}x"`)
      await page.getByRole('alert').waitFor()
      expect(await page.locator('main img, main script').count()).toBe(0)
      expect(await page.evaluate('globalThis.attacked')).toBeUndefined()
      expect(problems).toEqual([])
    })

    test('works with the keyboard, and on a narrow screen', async () => {
      const server = await startServer()
      await query(
        server.url,
        `create table wide (${Array.from({ length: 40 }, (_, index) => `column_${index}`).join()})`,
      )
      await query(server.url, `insert into wide (column_0) values ('${'long '.repeat(100)}')`)
      const { page, problems } = await open(server)
      await page.setViewportSize({ width: 480, height: 800 })
      await page.getByRole('tab', { name: 'Requests' }).focus()
      await page.keyboard.press('ArrowRight')
      expect(await page.getByRole('tab', { name: 'Data' }).getAttribute('aria-selected')).toBe('true')
      await chooseTable(page, 'wide')
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(480)
      await page.getByRole('tab', { name: 'Data' }).focus()
      await page.keyboard.press('ArrowLeft')
      await query(server.url, 'select 1 as one')
      await page.locator('#rows tr').first().click()
      const box = await page.locator('#details').boundingBox()
      expect(box && box.y + box.height).toBeLessThanOrEqual(800)
      expect(await page.locator('.legend').isVisible()).toBe(true)
      expect(problems).toEqual([])
    })
  },
)
