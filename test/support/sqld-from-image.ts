import { inject } from 'vitest'

// makes the tests of this project start the server program from the image
process.env['BATON_SQLD'] = inject('libsqlContainer').sqldPath
