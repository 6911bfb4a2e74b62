//go:build !nosqlite

package sqlitestate

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func TestLoadRefusesBadValues(t *testing.T) {
	t.Parallel()
	const (
		quota = `INSERT INTO quotas (model, max_rpm, max_tpm, max_rpd) VALUES `
		req   = `INSERT INTO requests (model, ts) VALUES `
		tok   = `INSERT INTO tokens (model, ts, count) VALUES `
		daily = `INSERT INTO daily (model, day_start, day_count) VALUES `

		quotaAdded = `INSERT INTO quotas (model, max_itpm, max_otpm, max_tpd, max_in_flight, day_zone) VALUES `
	)
	tests := []struct {
		statement, mentions string
		invalidQuota        bool
	}{
		{quota + `('bad', -1, 0, 0)`, "max_rpm -1", true},
		{quota + `('bad', 0, -9223372036854775808, 0)`, "max_tpm -9223372036854775808", true},
		{quota + `('bad', 0, 0, -3)`, "max_rpd -3", true},
		{quota + `('bad', 'many', 0, 0)`, "max_rpm many", false},
		{quota + `('bad', 0, 1.5, 0)`, "max_tpm 1.5", false},
		{quota + `('bad', 0, 9223372036854775808, 0)`, "max_tpm real", false},
		{quota + `('bad', 0, 0, x'31')`, "max_rpd blob", false},
		{quota + `(NULL, 1, 1, 1)`, "model null", false},
		{quota + `(x'626164', 1, 1, 1)`, "model blob", false},
		{req + `('bad', 'now')`, "ts now", false},
		{req + `('bad', 1.5)`, "ts 1.5", false},
		{req + `('bad', x'')`, "ts blob", false},
		{req + `(x'626164', 1)`, "model blob", false},
		{tok + `('bad', 1, -1)`, "count -1", false},
		{tok + `('bad', 1, 'lots')`, "count lots", false},
		{tok + `('bad', 1, 2.5)`, "count 2.5", false},
		{tok + `('bad', 1, 1e300)`, "count real", false},
		{tok + `('bad', '2026-01-01T00:00:00Z', 1)`, "ts 2026-01-01", false},
		{tok + `(x'626164', 1, 1)`, "model blob", false},
		{daily + `('bad', 'today', 1)`, "day_start today", false},
		{daily + `('bad', 1, -5)`, "day_count -5", false},
		{daily + `('bad', 1, x'00')`, "day_count blob", false},
		{daily + `(NULL, 1, 1)`, "model null", false},
		{quotaAdded + `('bad', -4, 0, 0, 0, '')`, "max_itpm -4", true},
		{quotaAdded + `('bad', 0, -5, 0, 0, '')`, "max_otpm -5", true},
		{quotaAdded + `('bad', 0, 0, -6, 0, '')`, "max_tpd -6", true},
		{quotaAdded + `('bad', 0, 0, 0, -7, '')`, "max_in_flight -7", true},
		{`INSERT INTO quotas (model, burst) VALUES ('bad', -1000000000)`, "Burst burst -1s", true},
		{`INSERT INTO quotas (model, burst) VALUES ('bad', '10s')`, "burst 10s", false},
		{quotaAdded + `('bad', 0, 0, 0, 0.5, '')`, "max_in_flight real", false},
		{quotaAdded + `('bad', 0, 0, 0, 0, 'Mars/Base')`, "DayZone day_zone Mars/Base time/tzdata", true},
		{quotaAdded + `('bad', 0, 0, 0, 0, '../../etc/passwd')`, "day_zone etc/passwd", true},
		{quotaAdded + `('bad', 0, 0, 0, 0, x'5554')`, "day_zone blob text", false},
		{quotaAdded + `('bad', 0, 0, 0, 0, '` + strings.Repeat("\x01", 100_000) + `')`, "day_zone", true},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, 7)`, "input 7 5", false},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, -1)`, "input -1", false},
		{`INSERT INTO tokens (model, ts, count, input) VALUES ('bad', 1, 5, 'some')`, "input some", false},
		{`INSERT INTO daily (model, day_start, day_count, day_tokens) VALUES ('bad', 1, 1, -8)`, "day_tokens -8", false},
		{`INSERT INTO daily (model, day_start, day_count, day_tokens) VALUES ('bad', 1, 1, x'00')`, "day_tokens blob", false},
		{`INSERT INTO cooldowns VALUES ('bad', 'soon')`, "until soon", false},
		{`INSERT INTO cooldowns VALUES (x'626164', 1)`, "model blob", false},
		{`INSERT INTO cooldowns VALUES (NULL, 1)`, "model null", false},
		{`INSERT INTO answers VALUES ('bad', 7)`, "learned", false},
		{`INSERT INTO answers VALUES ('bad', '{"count":-7}')`, "count -7", false},
		{`INSERT INTO found VALUES ('bad', 7)`, "found", false},
		{`INSERT INTO found VALUES ('bad', '{"rate":{"level":-7}}')`, "rate_level -7", false},
		{`INSERT INTO quotas (model) VALUES ('bad'); INSERT INTO quota_bounds VALUES ('bad', -7, 0, 0, 0)`, "AdaptiveFloorRPM adaptive_floor_rpm -7", true},
		{`INSERT INTO quotas (model) VALUES ('bad'); INSERT INTO quota_bounds VALUES ('bad', 8, 7, 0, 0)`, "AdaptiveFloorRPM adaptive_floor_rpm 8 ceiling 7", true},
		{`INSERT INTO quota_bounds VALUES ('bad', 0, 0, 0, 'x')`, "adaptive_ceiling_in_flight text", false},
		{tok + `(zeroblob(100000), 1, 1)`, "model blob", false},
		{tok + `('` + strings.Repeat("bad", 40_000) + `', 1, -1)`, "count -1", false},
		{tok + `('bad', 1, '` + strings.Repeat(`\`, 100_000) + `')`, "count text", false},
		{quota + `('` + strings.Repeat("\x01", 100_000) + `', -1, 1, 1)`, "max_rpm -1", true},
	}
	for _, tt := range tests {
		t.Run(tt.statement[:min(len(tt.statement), 100)], func(t *testing.T) {
			path := sample(t)
			statefile.Exec(t, path, tt.statement)
			before := statefile.Contents(t, path)
			d, err := Open(path, Formats{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.Load()
			statefile.WantCorrupt(t, err, append(strings.Fields(tt.mentions), path)...)
			if errors.Is(err, state.ErrInvalidQuota) != tt.invalidQuota {
				t.Errorf("error %v; is it ErrInvalidQuota?", err)
			}
			if s != nil || !strings.HasPrefix(err.Error(), "corrupt state: ") {
				t.Errorf("%v, error %q", s, err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if !maps.EqualFunc(statefile.Contents(t, path), before, bytes.Equal) {
				t.Error("the file was changed")
			}
		})
	}
}
