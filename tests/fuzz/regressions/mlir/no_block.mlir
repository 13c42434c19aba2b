#loc = loc(unknown)
"builtin.module"() ({
}) : () -> () loc(#loc)
