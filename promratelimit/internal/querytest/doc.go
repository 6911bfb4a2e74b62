// Package querytest tests the dashboard and the alert rules of promratelimit: that each query names
// only metrics and labels that exist, that promtool takes the rules and their tests, and that a
// Prometheus server that scrapes examples/metrics answers the queries. It is a module of its own
// because of the parser of PromQL.
//
// The tests that need promtool and prometheus are skipped where those are not installed. Debian has
// both in the package prometheus.
package querytest
