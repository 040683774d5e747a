import { relations } from 'drizzle-orm'
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'

export const nation = sqliteTable('nation', {
  code: text().primaryKey(),
  athletes: integer().notNull(),
})

export const sport = sqliteTable('sport', {
  id: integer().primaryKey(),
  name: text().notNull().unique(),
})

export const athlete = sqliteTable('athlete', {
  id: integer().primaryKey(),
  name: text().notNull(),
  nation: text()
    .notNull()
    .references(() => nation.code),
  sex: text().notNull(),
  born: text(),
  heightCm: integer('height_cm'),
  weightKg: integer('weight_kg'),
  sportId: integer('sport_id')
    .notNull()
    .references(() => sport.id),
})

export const medal = sqliteTable(
  'medal',
  {
    athleteId: integer('athlete_id')
      .notNull()
      .references(() => athlete.id),
    kind: text().notNull(),
    count: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.athleteId, table.kind] })],
)

export const pizza = sqliteTable('pizza', {
  id: integer().primaryKey(),
  name: text().notNull(),
  size: text().notNull(),
  category: text().notNull(),
})

export const sale = sqliteTable('sale', {
  day: text().notNull(),
  pizzaId: integer('pizza_id')
    .notNull()
    .references(() => pizza.id),
  orders: integer().notNull(),
  revenueCents: integer('revenue_cents').notNull(),
})

export const sportRelations = relations(sport, ({ many }) => ({ athletes: many(athlete) }))

export const athleteRelations = relations(athlete, ({ one, many }) => ({
  sport: one(sport, { fields: [athlete.sportId], references: [sport.id] }),
  medals: many(medal),
}))

export const medalRelations = relations(medal, ({ one }) => ({
  athlete: one(athlete, { fields: [medal.athleteId], references: [athlete.id] }),
}))
