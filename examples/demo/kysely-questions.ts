import { type Kysely, ParseJSONResultsPlugin, sql } from 'kysely'
import { jsonArrayFrom, jsonObjectFrom } from 'kysely/helpers/sqlite'
import type { Database } from './kysely-database.ts'
import { PAGE, type Question, ROWING, TITLES } from './question.ts'

export function kyselyQuestions(db: Kysely<Database>): Question[] {
  return [
    { title: TITLES.medals, run: () => queryMedals(db) },
    { title: TITLES.height, run: () => queryHeights(db) },
    { title: TITLES.pizza, run: () => queryBestPizzas(db) },
    { title: TITLES.page, run: () => queryPage(db) },
    { title: TITLES.tree, run: () => queryTree(db) },
  ]
}

const queryMedals = (db: Kysely<Database>) =>
  db
    .selectFrom('medal')
    .innerJoin('athlete', 'athlete.id', 'medal.athlete_id')
    .select(({ fn }) => [
      'athlete.nation',
      fn.sum<number>('medal.count').filterWhere('medal.kind', '=', 'gold').as('gold'),
      fn.sum<number>('medal.count').as('medals'),
      fn.count<number>('athlete.id').distinct().as('winners'),
    ])
    .groupBy('athlete.nation')
    .orderBy('gold', 'desc')
    .orderBy('medals', 'desc')
    .limit(5)
    .execute()

const queryHeights = (db: Kysely<Database>) =>
  db
    .selectFrom('athlete')
    .innerJoin('sport', 'sport.id', 'athlete.sport_id')
    .innerJoin('medal', 'medal.athlete_id', 'athlete.id')
    .select(({ fn }) => [
      'sport.name as sport',
      sql<number>`round(avg(athlete.height_cm), 1)`.as('cm'),
      fn.count<number>('athlete.id').as('medallists'),
    ])
    .groupBy('sport.name')
    .having(({ fn }) => fn.count('athlete.id'), '>=', 20)
    .orderBy('cm', 'desc')
    .limit(5)
    .execute()

const queryBestPizzas = (db: Kysely<Database>) =>
  db
    .selectFrom(
      db
        .selectFrom('sale')
        .innerJoin('pizza', 'pizza.id', 'sale.pizza_id')
        .select(({ fn }) => [
          sql<string>`substr(sale.day, 1, 7)`.as('month'),
          'pizza.name',
          fn.sum<number>('sale.revenue_cents').as('cents'),
          sql<number>`rank() over (partition by substr(sale.day, 1, 7) order by sum(sale.revenue_cents) desc)`.as(
            'place',
          ),
        ])
        .groupBy(['month', 'pizza.name'])
        .as('ranked'),
    )
    .select(['month', 'name', 'cents'])
    .where('place', '=', 1)
    .orderBy('month')
    .limit(6)
    .execute()

const queryPage = (db: Kysely<Database>) =>
  db
    .selectFrom('athlete')
    .innerJoin('sport', 'sport.id', 'athlete.sport_id')
    .select(['athlete.name', 'athlete.nation', 'athlete.born'])
    .where('sport.name', '=', ROWING)
    .orderBy('athlete.name')
    .orderBy('athlete.id')
    .limit(PAGE.size)
    .offset((PAGE.number - 1) * PAGE.size)
    .execute()

const queryTree = (db: Kysely<Database>) =>
  db
    .selectFrom('athlete')
    .select(({ selectFrom }) => [
      'athlete.name',
      'athlete.height_cm as heightCm',
      jsonObjectFrom(
        selectFrom('sport').whereRef('sport.id', '=', 'athlete.sport_id').select('sport.name'),
      ).as('sport'),
      jsonArrayFrom(
        selectFrom('medal')
          .whereRef('medal.athlete_id', '=', 'athlete.id')
          .select(['medal.kind', 'medal.count'])
          .orderBy('medal.kind'),
      ).as('medals'),
    ])
    .where('athlete.born', '>=', '1988')
    .orderBy('athlete.height_cm', 'desc')
    .orderBy('athlete.id')
    .limit(4)
    .withPlugin(new ParseJSONResultsPlugin())
    .execute()
