import { observeWithOpenTelemetry } from '@batonsql/core/opentelemetry'

console.log(observeWithOpenTelemetry({ url: 'https://app.example' }))
