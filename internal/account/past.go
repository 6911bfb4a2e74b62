package account

// ChargePast is ChargeTo for a call that was admitted before, at its At: it counts as of then, but
// its money to the present day and month. The account must have been refreshed.
func (c *Call) ChargePast(a, payer *Account, now Now, span int64) (eased bool) {
	a.begin(now)
	charge := c.next()
	charge.addPast(&a.Meter, c, now, span)
	charge.Payer = payer
	a.Open.add(1, c.Tokens, c.Most)
	if u := a.UseOf(c.Class); u != nil {
		u.followDay()
		c.next().addPast(&u.Meter, c, now, span)
	}
	b := Bill{At: c.At.Instant, Wall: now.Wall, Tokens: c.Tokens, Most: c.Most, InFlight: a.InFlight}
	for _, x := range a.Extras {
		if x != Extra(a.Spend) {
			eased = x.Charge(b, c.At) || eased
		}
	}
	if payer != nil {
		payer.Spend.Charge(b, now)
	}
	return eased
}

// addPast charges a meter as of when the call was admitted.
func (c *Charge) addPast(m *Meter, call *Call, now Now, span int64) {
	at := call.At
	*c = Charge{Meter: m, At: at.Instant, Tokens: call.Tokens, days: m.day.serial - 1}
	request, token := -1, -1
	if now.Instant-at.Instant <= span {
		request, token = m.insert(at.Instant, at.Time(), call.Tokens, false)
	}
	m.show()
	m.InFlight++
	c.place(request, token)
	if m.day.takes(at.Wall) {
		m.day.begin(at.Wall)
		m.addDay(1, call.Tokens.Total())
		c.days = m.days
	}
}
