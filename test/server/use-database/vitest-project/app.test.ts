import { testApp } from './app-tests.ts'

testApp()
