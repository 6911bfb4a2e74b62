// Package yamlfile reads and writes the YAML state file: the layout of the source document
// line by line, and any other layout by way of the YAML library, within limits that keep a
// hostile file from costing more than it should. The limiter's Persist, Load and
// MigrateYAMLToSQLite use it. It also reads the configuration of ReadConfig (DecodeConfig).
package yamlfile
