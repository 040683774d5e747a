import {
  type ConversionConfig,
  type JsonSchema,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema'
import { type GenericSchema, is } from 'valibot'
import * as definitions from './models.ts'
import type { Route } from './route.ts'

const CONVERSION: ConversionConfig = {
  target: 'draft-2020-12',
  definitions,
  overrideRef: ({ referenceId }) => `#/components/schemas/${referenceId}`,
}

/** Describes routes as an OpenAPI document. @param version version of the server */
export function openApiDocument(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeOperation(route) }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Platform API of a local server', version },
    paths,
    components: {
      schemas: toJsonSchemaDefs(definitions, CONVERSION),
      securitySchemes: { apiToken: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function describeOperation({ path, access, schemas }: Route): object {
  const pathParameters = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
  }))
  const queryParameters = (schemas?.query ?? []).map((name) => ({ name, in: 'query' }))
  const parameters = [...pathParameters, ...queryParameters].map((parameter) => ({
    ...parameter,
    schema: { type: 'string' },
  }))
  const body = schemas?.body
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: !is(body, {}),
        ...content(body, schemas.isForm === true ? 'multipart/form-data' : 'application/json'),
      },
    }),
    security: access.level === 'none' ? [] : [{ apiToken: [] }],
    responses: {
      ...(schemas && {
        200: { description: 'Success', ...(schemas.response && content(schemas.response)) },
      }),
      default: { description: 'Failure', ...content(definitions.Failure) },
    },
  }
}

function content(
  schema: GenericSchema,
  mediaType = 'application/json',
): { content: Record<string, { schema: JsonSchema }> } {
  const { $schema: _dialect, $defs: _definitions, ...converted } = toJsonSchema(schema, CONVERSION)
  return { content: { [mediaType]: { schema: converted } } }
}
