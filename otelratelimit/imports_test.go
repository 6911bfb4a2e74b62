package otelratelimit_test

import (
	"go/build"
	"slices"
	"strings"
	"testing"
)

// The package imports the API of OpenTelemetry alone: a program chooses its SDK.
func TestImports(t *testing.T) {
	pkg, err := build.ImportDir(".", 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"dappco.re/go/core/go-ratelimit", "dappco.re/go/core/go-ratelimit/internal/instruments",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes",
		"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/metric/embedded", "go.opentelemetry.io/otel/trace",
	}
	if len(pkg.Imports) < len(allowed) {
		t.Errorf("it imports only %q", pkg.Imports)
	}
	for _, path := range pkg.Imports {
		if strings.Contains(path, ".") && !slices.Contains(allowed, path) {
			t.Errorf("it imports %s", path)
		}
	}
}
