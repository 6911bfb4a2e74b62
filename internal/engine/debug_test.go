package engine_test
import ("testing";"bytes";"dappco.re/go/core/go-ratelimit/internal/account";"os";"strconv";"dappco.re/go/core/go-ratelimit/internal/engine")
func TestDebug(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	a := &replica{name: "direct", e: engine.New(1, nil)}
	b := &replica{name: "loaded", e: engine.New(1, nil)}
	l := newLife(uint64(seed), a.e)
	for i := 0; i < 3000; i++ {
		for _, is := range l.entries() {
			o := a.apply(t, is, nil)
			l.heard(is, &o)
			for acc := range a.e.Accounts {
				if _, q, known := a.e.Catalog.Cover(acc.Name); q != acc.Quota || known == acc.Has(account.Unknown) {
					t.Fatalf("entry %d %T %+v: %q %+v, want %+v %v", i, is.command, is.command, acc.Name, acc.Quota, q, known)
				}
			}
			b.apply(t, is, is.command.Append(nil))
			x, y := a.e.AppendImage(nil), b.e.AppendImage(nil)
			if !bytes.Equal(x, y) {
				d := differsAt(x, y)
				t.Logf("%v\n%v", x[d-60:d+40], y[d-60:d+40])
				for acc := range a.e.Accounts { t.Logf("%q %+v traits %b", acc.Name, acc.Quota, acc.Traits) }
				t.Fatalf("entry %d %T %+v: differ at %d of %d,%d: %q\n%q", i, is.command, is.command, d, len(x), len(y), x[max(d-60,0):d+20], y[max(d-60,0):d+20])
			}
			b.reload(t)
		}
	}
}
