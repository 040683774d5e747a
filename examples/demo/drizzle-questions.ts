import type { BatonDatabase } from '@batonsql/drizzle-driver'
import { and, asc, count, countDistinct, desc, eq, gte, sql, sum } from 'drizzle-orm'
import type * as schema from './drizzle-schema.ts'
import { athlete, medal, pizza, sale, sport } from './drizzle-schema.ts'
import { PAGE, type Question, ROWING, TITLES } from './question.ts'

type Database = BatonDatabase<typeof schema>

export function drizzleQuestions(db: Database): Question[] {
  return [
    { title: TITLES.medals, run: () => queryMedals(db) },
    { title: TITLES.height, run: () => queryHeights(db) },
    { title: TITLES.pizza, run: () => queryBestPizzas(db) },
    { title: TITLES.page, run: () => queryPage(db) },
    { title: TITLES.tree, run: () => queryTree(db) },
  ]
}

const queryMedals = (db: Database) =>
  db
    .select({
      nation: athlete.nation,
      gold: sql<number>`sum(${medal.count}) filter (where ${medal.kind} = 'gold')`.as('gold'),
      medals: sum(medal.count).mapWith(Number).as('medals'),
      winners: countDistinct(athlete.id),
    })
    .from(medal)
    .innerJoin(athlete, eq(athlete.id, medal.athleteId))
    .groupBy(athlete.nation)
    .orderBy(desc(sql`gold`), desc(sql`medals`))
    .limit(5)

const queryHeights = (db: Database) =>
  db
    .select({
      sport: sport.name,
      cm: sql<number>`round(avg(${athlete.heightCm}), 1)`.as('cm'),
      medallists: count(athlete.id),
    })
    .from(athlete)
    .innerJoin(sport, eq(sport.id, athlete.sportId))
    .innerJoin(medal, eq(medal.athleteId, athlete.id))
    .groupBy(sport.name)
    .having(gte(count(athlete.id), 20))
    .orderBy(desc(sql`cm`))
    .limit(5)

function queryBestPizzas(db: Database) {
  const month = sql<string>`substr(${sale.day}, 1, 7)`
  const ranked = db
    .select({
      month: month.as('month'),
      name: pizza.name,
      cents: sum(sale.revenueCents).mapWith(Number).as('cents'),
      place: sql<number>`rank() over (partition by ${month} order by sum(${sale.revenueCents}) desc)`.as(
        'place',
      ),
    })
    .from(sale)
    .innerJoin(pizza, eq(pizza.id, sale.pizzaId))
    .groupBy(month, pizza.name)
    .as('ranked')
  return db
    .select({ month: ranked.month, name: ranked.name, cents: ranked.cents })
    .from(ranked)
    .where(eq(ranked.place, 1))
    .orderBy(asc(ranked.month))
    .limit(6)
}

const queryPage = (db: Database) =>
  db
    .select({ name: athlete.name, nation: athlete.nation, born: athlete.born })
    .from(athlete)
    .innerJoin(sport, and(eq(sport.id, athlete.sportId), eq(sport.name, ROWING)))
    .orderBy(asc(athlete.name), asc(athlete.id))
    .limit(PAGE.size)
    .offset((PAGE.number - 1) * PAGE.size)

const queryTree = (db: Database) =>
  db.query.athlete.findMany({
    columns: { name: true, heightCm: true },
    with: {
      sport: { columns: { name: true } },
      medals: { columns: { kind: true, count: true }, orderBy: asc(medal.kind) },
    },
    where: gte(athlete.born, '1988'),
    orderBy: [desc(athlete.heightCm), asc(athlete.id)],
    limit: 4,
  })
