/** The types of the tables for Kysely. */
export interface Database {
  nation: { code: string; athletes: number }
  sport: { id: number; name: string }
  athlete: {
    id: number
    name: string
    nation: string
    sex: string
    born: string | null
    height_cm: number | null
    weight_kg: number | null
    sport_id: number
  }
  medal: { athlete_id: number; kind: string; count: number }
  pizza: { id: number; name: string; size: string; category: string }
  sale: { day: string; pizza_id: number; orders: number; revenue_cents: number }
}
