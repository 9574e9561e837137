package jakarta.annotation;

/** Stands for the annotation of that name, which the generated client uses. */
public @interface Generated {
    String[] value();

    String date() default "";

    String comments() default "";
}
