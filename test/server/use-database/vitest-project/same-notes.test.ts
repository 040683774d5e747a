import { testNotes } from './notes.ts'

testNotes()
