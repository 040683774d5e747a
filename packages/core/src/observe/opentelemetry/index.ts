export { type OpenTelemetryOptions, observeWithOpenTelemetry } from './observe.ts'
