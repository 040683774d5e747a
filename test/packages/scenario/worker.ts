import { type Settings, scenario } from './scenario.ts'

// The scenario as a module that workerd serves.

export default {
  fetch: async (_request: Request, { SETTINGS }: { readonly SETTINGS: Settings }): Promise<Response> =>
    new Response(await scenario(SETTINGS).catch(String)),
}
