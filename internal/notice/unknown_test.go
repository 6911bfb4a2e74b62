package notice_test

import (
	"fmt"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/notice"
)

func TestMeet(t *testing.T) {
	began := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	asked := 0
	nearest := func() string { asked++; return fmt.Sprint("near", asked) }
	var m notice.UnknownModels
	for _, tt := range []struct {
		what    string
		model   string
		after   time.Duration
		version int
		name    string
		report  bool
	}{
		{"the first call", "a", 0, 1, "near1", true},
		{"the next one", "a", time.Second, 1, "near1", false},
		{"another model", "b", time.Second, 1, "near2", true},
		{"other quotas", "a", time.Minute, 2, "near3", false},
		{"a third model, without room", "c", time.Minute, 2, "", false},
		{"just before a day is over", "a", notice.UnknownAgain - 1, 2, "near3", false},
		{"a day later", "a", notice.UnknownAgain, 2, "near4", true},
		{"a third model, once another is a day old", "c", notice.UnknownAgain + time.Second, 2, "near5", true},
	} {
		name, report, ok := m.Meet(tt.model, began.Add(tt.after), tt.version, 2, nearest)
		if name != tt.name || report != tt.report || ok != (name != "") {
			t.Errorf("%s: %q, %t, %t; want %q, %t", tt.what, name, report, ok, tt.name, tt.report)
		}
	}
}

func TestMeetDoesNotAllocateForOneThatIsKnown(t *testing.T) {
	var m notice.UnknownModels
	now := time.Now()
	meet := func() { m.Meet("a", now, 1, 10, func() string { return "" }) }
	meet()
	if n := testing.AllocsPerRun(1000, meet); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Where there is no room, a call does not look at all that are kept.
func TestMeetIsFastWithoutRoom(t *testing.T) {
	const most = 100_000
	var m notice.UnknownModels
	now := time.Now()
	nearest := func() string { return "" }
	for i := range most {
		m.Meet(fmt.Sprint(i), now.Add(time.Duration(i)), 1, most, nearest)
	}
	began := time.Now()
	for range 10_000 {
		if _, _, ok := m.Meet("new", now.Add(notice.UnknownAgain-1), 1, most, nearest); ok {
			t.Fatal("there is room")
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("10,000 calls took %v", took)
	}
	if _, report, ok := m.Meet("new", now.Add(notice.UnknownAgain), 1, most, nearest); !report || !ok {
		t.Error("there is no room after a day")
	}
}
