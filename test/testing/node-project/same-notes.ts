import './notes.ts'
