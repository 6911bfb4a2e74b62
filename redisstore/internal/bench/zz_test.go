package bench
import ("testing";"context";"fmt";"strings")
func TestZZ(t *testing.T) {
	a := startServer(t); rl := newLimiter(t, a, "zz"); c := newClient(t, a)
	for range 2000 { r, _ := rl.Reserve("m", 100, 10); r.Commit(90, 5) }
	s, _ := c.Info(context.Background(), "commandstats").Result()
	for _, l := range strings.Split(s, "\n") { fmt.Println(l) }
}
