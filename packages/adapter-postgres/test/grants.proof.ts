// More random histories.
import "./grants.system.ts"
