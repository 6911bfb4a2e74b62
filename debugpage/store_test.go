//go:build !nosqlite

package debugpage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/debugpage"
)

// TestStoreDown: a limiter that is closed, and one whose database is gone.
func TestStoreDown(t *testing.T) {
	cfg := ratelimit.Config{
		FilePath: t.TempDir() + "/state", Backend: "sqlite", Shared: true, FailClosed: true,
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 2}},
	}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("m", 1, 1)
	h := debugpage.Handler(rl)
	if page := get(h, "/").Body.String(); strings.Contains(page, `class="alarm"`) || rowOf(page, "m") == "" {
		t.Error("an alarm, or no model, while all is well")
	}
	if err := breakFile(cfg.FilePath); err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("m", 1, 1)
	h = debugpage.Handler(rl)
	page := get(h, "/").Body.String()
	if row := rowOf(page, "m"); !strings.Contains(page, "<b>The store cannot be used.</b>") || !strings.Contains(row, "store down") {
		t.Errorf("without its database: %q", row)
	}
	if text := get(h, "/?format=json").Body.String(); !strings.Contains(text, `,"store_error":"`) {
		t.Errorf("without its database: %s", text)
	}
	rl.Close()
	if row := rowOf(get(debugpage.Handler(rl), "/").Body.String(), "m"); !strings.Contains(row, "closed the limiter is closed") {
		t.Errorf("closed: %q", row)
	}
}

// breakFile puts a folder in the place of a file, so that it cannot be made anew.
func breakFile(path string) error {
	if err := os.Mkdir(path+".away", 0o700); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(path+".away", "state")); err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}
