//go:build nosqlite

package ratelimit

import (
	"context"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Stand-ins for what ledger_file.go and its like have: nothing can be opened.

const (
	lockedFor = 3 * time.Second

	factFile     = "file"
	factBoot     = "boot"
	factUsedWall = "used"
	factUsedMono = "usedmono"
	factSpan     = "span"
	factFolded   = "folded"
)

var (
	background = context.Background()
	damaged    = func(string, ...any) error { return state.ErrNoSQLite }
)

func isBusy(error) bool                               { return false }
func isDamage(error) bool                             { return false }
func explainFile(_ string, err error) error           { return err }
func factInt(map[string]string, string) int64         { return 0 }
func openLedgerFile(_, _ string) (*ledgerFile, error) { return nil, state.ErrNoSQLite }

type ledgerFile struct{ writer, reader *statements }

func (*ledgerFile) begin(context.Context, time.Duration) error { return state.ErrNoSQLite }
func (*ledgerFile) commit() error                              { return state.ErrNoSQLite }
func (*ledgerFile) rollback()                                  {}
func (*ledgerFile) close() error                               { return nil }
func (*ledgerFile) inPlace() error                             { return state.ErrNoSQLite }
func (*ledgerFile) setLogAside()                               {}

type statements struct{}

func (*statements) exec(string, ...any) (any, error)           { return nil, state.ErrNoSQLite }
func (*statements) number(string, ...any) (int64, error)       { return 0, state.ErrNoSQLite }
func (*statements) fact(string) (int64, error)                 { return 0, state.ErrNoSQLite }
func (*statements) setFact(_, _ string) error                  { return state.ErrNoSQLite }
func (*statements) newsSince(int64) ([]*event, bool, error)    { return nil, false, state.ErrNoSQLite }
func (*statements) readAll() (*image, error)                   { return nil, state.ErrNoSQLite }
func (*statements) write(*event, int64) error                  { return state.ErrNoSQLite }
func (*statements) endCooldowns(func(string) bool) error       { return state.ErrNoSQLite }
func (*statements) fold([]*event) error                        { return state.ErrNoSQLite }
func (*statements) drop(_, _ int64) error                      { return state.ErrNoSQLite }
func (*statements) sweep(int64) error                          { return state.ErrNoSQLite }
func (*statements) leases() ([]lease, error)                   { return nil, state.ErrNoSQLite }
func (*statements) renew(_, _, _ int64, _ time.Duration) error { return state.ErrNoSQLite }
func (*statements) vouch(_, _, _ int64, _ time.Duration) error { return state.ErrNoSQLite }

type lease struct{ process, wall, mono, ttl int64 }

type image struct {
	*snapshot
	events []*event
	leases []lease
	facts  map[string]string
}
