// More random histories.
import "./pooler.system.ts"
