import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'csv-parse/sync'

// Two public data sets, divided into related tables: athletes of the 2016 Olympics, and a year of a pizzeria's sales.

export interface Tables {
  readonly nation: { code: string; athletes: number }[]
  readonly sport: { id: number; name: string }[]
  readonly athlete: {
    id: number
    name: string
    nation: string
    sex: string
    born: string | null
    height_cm: number | null
    weight_kg: number | null
    sport_id: number
  }[]
  readonly medal: { athlete_id: number; kind: string; count: number }[]
  readonly pizza: { id: number; name: string; size: string; category: string }[]
  readonly sale: { day: string; pizza_id: number; orders: number; revenue_cents: number }[]
}

const YEAR = '2020'
const NAME_AND_SIZE = /^(.*) (Small|Medium|Large|Extra Large)$/

export function readTables(): Tables {
  return { ...readOlympians(), ...readSales() }
}

function readOlympians(): Pick<Tables, 'nation' | 'sport' | 'athlete' | 'medal'> {
  const sports = new Map<string, number>()
  const nations = new Map<string, number>()
  const athlete: Tables['athlete'] = []
  const medal: Tables['medal'] = []
  for (const row of readCsv('olympians.csv')) {
    const nation = row['nationality'] as string
    nations.set(nation, (nations.get(nation) ?? 0) + 1)
    athlete.push({
      id: Number(row['id']),
      name: row['name'] as string,
      nation,
      sex: row['sex'] as string,
      born: row['date_of_birth'] || null,
      height_cm: row['height'] ? Math.round(Number(row['height']) * 100) : null,
      weight_kg: row['weight'] ? Number(row['weight']) : null,
      sport_id: getId(sports, row['sport'] as string),
    })
    for (const kind of ['gold', 'silver', 'bronze']) {
      if (Number(row[kind]) > 0) medal.push({ athlete_id: Number(row['id']), kind, count: Number(row[kind]) })
    }
  }
  return {
    nation: [...nations].map(([code, athletes]) => ({ code, athletes })),
    sport: [...sports].map(([name, id]) => ({ id, name })),
    athlete,
    medal,
  }
}

function readSales(): Pick<Tables, 'pizza' | 'sale'> {
  const ids = new Map<string, number>()
  const pizza: Tables['pizza'] = []
  const sale: Tables['sale'] = []
  for (const row of readCsv('pizza.csv')) {
    if (!row['order_date']?.startsWith(YEAR)) continue
    const label = row['name'] as string
    const previousSize = ids.size
    const id = getId(ids, label)
    if (ids.size > previousSize) {
      const [, name = label, size = ''] = NAME_AND_SIZE.exec(label) ?? []
      pizza.push({
        id,
        name: name.replace(/ Extra$/, ''),
        size: name.endsWith(' Extra') ? `Extra ${size}` : size,
        category: row['category'] as string,
      })
    }
    sale.push({
      day: row['order_date'].slice(0, 10),
      pizza_id: id,
      orders: Number(row['orders']),
      revenue_cents: Math.round(Number(row['revenue']) * 100),
    })
  }
  return { pizza, sale }
}

function readCsv(name: string): Record<string, string>[] {
  const file = fileURLToPath(import.meta.resolve(`@observablehq/sample-datasets/${name}`))
  return parse(readFileSync(file), { columns: true }) as Record<string, string>[]
}

function getId(ids: Map<string, number>, name: string): number {
  const id = ids.get(name) ?? ids.size + 1
  ids.set(name, id)
  return id
}
