import { inject } from 'vitest'

// the files of this project start the server program from the image
process.env['BATON_SQLD'] = inject('libsqlContainer').sqldPath
